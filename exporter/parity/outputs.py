"""Compare outputs that are not distributions over tokens, one by one, each as its form asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.findings import Rung
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.parity.output_form import OutputForm
from edgec.exporter.parity.refusals import used_share


def worst_output_rung(
    before: Stage, after: Stage, forms: Sequence[OutputForm], compare: Callable[[Stage, Stage], Rung]
) -> Rung:
    """The rung of the output that uses up most of its budget, so that large outputs cannot hide small ones.

    Args:
        before: the reference's outputs, in one row (``flatten_outputs``).
        after: the outputs to judge, in one row.
        forms: of each output, in order.
        compare: makes a rung from two stages.

    Returns:
        The rung without the figures that only distributions over tokens have.
    """
    parts = [stage.logits.split([form.size for form in forms], 1) for stage in (before, after)]
    rungs = [
        compare(replace(before, logits=a, form=form), replace(after, logits=b, form=form))
        for a, b, form in zip(*parts, forms, strict=True)
        if a.numel()
    ]
    return worst_rung(rungs, "output")


def worst_rung(rungs: Sequence[Rung], kind: str) -> Rung:
    """The rung that uses up most of its budget, with a note on which ``kind`` of thing it is about."""
    place = max(range(len(rungs)), key=lambda index: (_used(rungs[index]), _relative(rungs[index])))
    worst = rungs[place]
    place_note = f"{kind} {place + 1} of {len(rungs)}, which differs most" if len(rungs) > 1 else ""
    note = "; ".join(filter(None, (worst.note, place_note)))
    return worst.model_copy(update={"note": note})


def worst_call_rung(
    before: Stage,
    after: Stage,
    forms: Sequence[OutputForm],
    compare: Callable[[Stage, Stage], Rung],
) -> Rung:
    """The rung of the call that differs most; the outputs of all calls stand in one row, call after call."""
    size = sum(form.size for form in forms)
    pairs = zip(before.logits.split(size, 1), after.logits.split(size, 1), strict=True)
    rungs = [worst_output_rung(replace(before, logits=a), replace(after, logits=b), forms, compare) for a, b in pairs]
    return worst_rung(rungs, "input")


def _used(rung: Rung) -> float:
    """The largest part of a limit that a figure uses up; infinite where one is not finite."""
    return max((used_share(rung, name, limit) for name, limit in rung.budget.items()), default=0.0)


def _relative(rung: Rung) -> float:
    """The largest difference relative to the reference's size; infinite where a value is not finite."""
    if rung.max_abs is None or rung.reference_max_abs is None:
        return math.inf
    return rung.max_abs / max(rung.reference_max_abs, 1e-12)


def flatten_outputs(outputs: Any) -> Tensor:
    """Join all output tensors to one row [1, N] of float32, or of float64 where integers are among them."""
    return torch.cat([_row(value.detach()) for value in _tensors(outputs)], 1)


def joined_outputs(calls: Sequence[Any]) -> Tensor:
    """The outputs of several calls in one row, call after call (``flatten_outputs``)."""
    return torch.cat([flatten_outputs(each) for each in calls], 1)


def _row(value: Tensor) -> Tensor:
    return (value.float() if value.is_floating_point() else value.double()).reshape(1, -1)


def sizes_of(outputs: Any) -> list[int]:
    """The number of values in each output tensor."""
    return [value.numel() for value in _tensors(outputs)]


def _tensors(outputs: Any) -> Sequence[Tensor]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def judge_again(
    rung: Rung,
    before: Stage,
    after: Stage,
    forms: Sequence[OutputForm],
    compare: Callable[[Stage, Stage], Rung],
    note: str,
) -> Rung:
    """The rung of other stages in place of one, with a note that says why, where it passes; else the one."""
    again = worst_output_rung(before, after, forms, compare)
    return again.model_copy(update={"note": "; ".join(filter(None, [again.note, note]))}) if again.passed else rung
