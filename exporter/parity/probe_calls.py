"""The calls on which the forms of a method are compared, and what a Program answers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.ir.call_plan import Call, Tokens, call_inputs, compared_positions, last_rows
from edgec.ir.graph_run import first_output, run_calls
from edgec.ir.linear_memo import LinearMemo
from edgec.ir.program import Interface, Program

OtherInputs = Callable[[int, int], Mapping[str, Tensor]]


@dataclass(frozen=True)
class ProbeCall:
    """One call of a method.

    Attributes:
        inputs: in the order of the method's interface.
        rows: int64 [K], the tokens of the call that are compared; None: all that it returns.
    """

    inputs: Sequence[Tensor]
    rows: Tensor | None = None


def text_calls(
    interface: Interface, tokens: Tokens, plan: Sequence[Call], given: OtherInputs = lambda start, size: {}
) -> list[ProbeCall]:
    """The calls that feed a text: those of ``plan`` where the interface has states, else one with the whole text.

    ``given``: further inputs by name, of the ``size`` tokens from ``start`` on.
    """
    whole = (0, len(tokens), torch.tensor(compared_positions(plan)))
    parts = [(call.start, call.size, last_rows(call)) for call in plan] if interface.states else [whole]
    return [
        ProbeCall(call_inputs(interface, tokens, start, size, rows, given(start, size)), rows)
        for start, size, rows in parts
    ]


def text_logits(program: Program, calls: Sequence[ProbeCall], memo: LinearMemo | None = None) -> Tensor:
    """The logits of a Program at the compared positions, float32 [P, V]; ``memo`` as in ``run_calls``."""
    with torch.no_grad():
        outputs = run_calls(program, [call.inputs for call in calls], memo)
    logits = [first_output(output)[0] for output in outputs]
    if not any(tensor.name == "logit_index" for tensor in program.interface.inputs):
        logits = [each[call.rows] for each, call in zip(logits, calls, strict=True)]
    return torch.cat(logits).float()
