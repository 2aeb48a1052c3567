"""The ends of the values that some nodes of a graph give over all calls: of all channels, and of the narrowest one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.program import Program
from edgec.passes.graph.activation_statistics import observe


@dataclass(frozen=True)
class Seen:
    """What a node gave: its ends, and how far the values of the channel (dimension 1) reach that varies least."""

    low: float
    high: float
    narrowest: float


def observed_ranges(
    graph: GraphModule, program: Program, nodes: Iterable[Node], calls: Iterable[Sequence[Tensor]]
) -> Mapping[Node, Seen]:
    """Run a graph and take note of what some of its nodes give.

    Args:
        graph: what is run; the nodes are its own.
        program: the interface and the states of the graph.
        nodes: whose values are looked at; each gives one float tensor of two dimensions or more.
        calls: inputs of each call in the interface's order.

    Returns:
        What each node gave; one that gives NaN or infinity is left out.
    """
    recorder = _Recorder(graph, set(nodes))
    observe(recorder, program, calls)
    finite = {node: ends for node, ends in recorder.ends.items() if bool(ends.isfinite().all())}
    return {node: _seen(*ends) for node, ends in finite.items()}


def _seen(low: Tensor, high: Tensor) -> Seen:
    return Seen(float(low.min()), float(high.max()), float((high - low).min()))


class _Recorder(torch.fx.Interpreter):
    """Holds the ends of each channel, float32 [2, C]."""

    def __init__(self, graph: GraphModule, nodes: set[Node]) -> None:
        super().__init__(graph)
        self.nodes = nodes
        self.ends: dict[Node, Tensor] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.nodes:
            rows = value.detach().float().transpose(0, 1).flatten(1)
            low, high = rows.amin(1), rows.amax(1)
            known = self.ends.get(n, torch.stack([low, high]))
            # torch's minimum keeps a NaN, as Python's would not.
            self.ends[n] = torch.stack([torch.minimum(low, known[0]), torch.maximum(high, known[1])])
        return value
