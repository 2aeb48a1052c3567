"""Measure how large the inputs of each matrix are on real text: the diagonal of their second moment.

The error that a rounded weight causes at a layer's output is (weight error x input), so the mean square of each input
says how much the weights that read it matter (the diagonal of GPTQ's Hessian). Running a graph to look at its values
leaves its states as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute
from edgec.ir.program import Program
from edgec.ir.quantized_form import parameter_of

aten = torch.ops.aten
_INPUT_DIMENSION = {aten.linear.default: -1, aten.conv2d.default: 1}


def second_moments(program: Program, calls: Iterable[Sequence[Tensor]]) -> Mapping[str, Tensor]:
    """Mean square of each input of every matrix, by the parameter's name in the graph.

    Args:
        program: a graph with float weights.
        calls: inputs of each call in the interface's order; a cached decoder sees them one after the other.

    Returns:
        float32 [K] for each linear layer's or convolution's weight; states are left as they were.
    """
    recorder = _Recorder(program.graph)
    observe(recorder, program, calls)
    return {name: (total / recorder.counts[name]).float() for name, total in recorder.totals.items()}


def observe(recorder: torch.fx.Interpreter, program: Program, calls: Iterable[Sequence[Tensor]]) -> None:
    """Run a graph on the inputs of each call.

    Args:
        recorder: an interpreter of the program's graph that takes note of what it sees.
        program: any graph whose operators execute here.
        calls: inputs in the interface's order; states carry over from call to call and are put back at the end.
    """
    with torch.no_grad(), restored_states(program):
        for inputs in calls:
            recorder.run(*inputs)


@contextmanager
def restored_states(program: Program) -> Iterator[None]:
    """Put the contents of a program's states back when the block ends without an error."""
    states = [attribute(program.graph, state.buffer) for state in program.interface.states]
    before = [value.clone() for value in states]
    yield
    for value, old in zip(states, before, strict=True):
        value.copy_(old)


class _Recorder(torch.fx.Interpreter):
    """Sums the squares of every matrix's inputs while the graph runs."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.totals: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def run_node(self, n: Node) -> Any:
        parameter = parameter_of(n.args[1]) if n.target in _INPUT_DIMENSION else None
        if parameter is not None:
            self._count(str(parameter.target), self.env[n.args[0]], _INPUT_DIMENSION[n.target])  # type: ignore[index]
        return super().run_node(n)

    def _count(self, name: str, value: Tensor, dimension: int) -> None:
        rows = value.detach().movedim(dimension, -1).flatten(0, -2).double()
        total = rows.square().sum(0)
        self.totals[name] = self.totals[name] + total if name in self.totals else total
        self.counts[name] = self.counts.get(name, 0) + len(rows)
