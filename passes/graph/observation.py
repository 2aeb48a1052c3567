"""Look at the values of a graph while it runs, and leave its states as they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    states = [attribute(program.graph, state.buffer) for state in program.interface.states]
    before = [value.clone() for value in states]
    with torch.no_grad():
        for inputs in calls:
            recorder.run(*inputs)
        for value, old in zip(states, before, strict=True):
            value.copy_(old)
