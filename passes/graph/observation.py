"""Run a graph to look at its values, and leave its states as they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from edgec.ir.attributes import attribute
from edgec.ir.program import Program


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
