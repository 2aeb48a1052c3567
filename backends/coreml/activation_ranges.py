"""The largest magnitude of every value in a graph on real text: what float16 has to hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.program import Program
from edgec.passes.graph.activation_statistics import observe
from edgec.passes.static.finite_mask import HIDDEN

_MASKED = (1.25 * HIDDEN, 0.75 * HIDDEN)
"""Scores within this range were pushed down by a mask on purpose."""


def activation_ranges(program: Program, calls: Iterable[Sequence[Tensor]]) -> Mapping[str, float]:
    """Run a graph in float32 and keep the largest finite magnitude of each node, masked scores left out, by name.

    Args:
        program: any graph whose operators execute here.
        calls: inputs of each call in the interface's order; states carry over from call to call and are put back.
    """
    recorder = _Recorder(program.graph)
    observe(recorder, program, calls)
    return recorder.largest


class _Recorder(torch.fx.Interpreter):
    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.largest: dict[str, float] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and isinstance(result, Tensor) and result.is_floating_point() and result.numel():
            masked = (result > _MASKED[0]) & (result < _MASKED[1])
            finite = result.masked_fill(masked, 0.0).nan_to_num(0.0, 0.0, 0.0)
            largest = max(abs(float(end)) for end in torch.aminmax(finite))
            self.largest[n.name] = max(self.largest.get(n.name, 0.0), largest)
        return result
