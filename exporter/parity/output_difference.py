"""How far two executions of a module differ in one output, in figures that a person can judge.

Floats are compared at the output's own size, and every channel at its own (``bundle/channels.py``); integers and truth
values, as class maps and masks hold, are equal or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.bundle.channels import Channel, worst_channel
from edgec.exporter.parity.metrics import without_masks
from edgec.exporter.parity.output_form import OutputForm


@dataclass(frozen=True)
class OutputDifference:
    """A candidate's values of one output against a reference's.

    Attributes:
        max_abs: largest difference of a value.
        mean_abs: mean difference of a value.
        reference_max_abs: largest value of the reference, the scale for ``max_abs``.
        channel_relative: the largest difference in a channel beside the channel's own spread; None for integers.
        probability: the largest difference of a probability; None for other outputs.
        equal_share: of integers and truth values, the share of equal ones; None for floats.
        place: the channel that differs most, in words.
        epsilon: how far top tokens may lie apart, of a rung of such a kind; nothing here is compared by it.
    """

    max_abs: float
    mean_abs: float
    reference_max_abs: float
    channel_relative: float | None = None
    probability: float | None = None
    equal_share: float | None = None
    place: str = ""
    epsilon: float = 0.0
    positions: int = 1

    @property
    def max_relative(self) -> float:
        """``max_abs`` relative to the reference's scale; infinite when anything is not finite."""
        ratio = self.max_abs / max(self.reference_max_abs, 1e-12)
        return ratio if math.isfinite(ratio) else math.inf


def output_difference(reference: Tensor, candidate: Tensor, form: OutputForm, epsilon: float) -> OutputDifference:
    """Compare the values of one output, float [1, N] each; what is not finite in one alone differs infinitely."""
    if form.counts:
        return _counted(reference, candidate, epsilon)
    one, other, hidden = without_masks(reference.double(), candidate.double())
    scale = float(one[~hidden].abs().max()) if bool((~hidden).any()) else 0.0
    if not bool(torch.isfinite(other).all()) or not bool(torch.isfinite(one).all()):
        lost = math.inf if form.probability else None
        return OutputDifference(math.inf, math.inf, scale, channel_relative=math.inf, probability=lost, epsilon=epsilon)
    gap = (one - other).abs()
    worst = _worst(one.masked_fill(hidden, math.nan), other, form)
    return OutputDifference(
        max_abs=float(gap.max()),
        mean_abs=float(gap.mean()),
        reference_max_abs=scale,
        channel_relative=worst.share,
        probability=float(gap.max()) if form.probability else None,
        place=_place(worst, form),
        epsilon=epsilon,
    )


def _counted(reference: Tensor, candidate: Tensor, epsilon: float) -> OutputDifference:
    gap = (reference.double() - candidate.double()).abs()
    return OutputDifference(
        max_abs=float(gap.max()),
        mean_abs=float(gap.mean()),
        reference_max_abs=float(reference.abs().max()),
        equal_share=float((gap == 0).double().mean()),
        epsilon=epsilon,
    )


def _worst(one: Tensor, other: Tensor, form: OutputForm) -> Channel:
    values, others = (value.reshape(form.shape).numpy() for value in (one, other))
    return worst_channel(values, others, form.shared, form.smallest)


def _place(worst: Channel, form: OutputForm) -> str:
    """The channel in words: ``scores, index 4 of dimension 2, which varies by 0.3 around 0.5``."""
    index = f"index {worst.index} of dimension {worst.axis}" if worst.axis is not None else ""
    channel = ", ".join(filter(None, [form.name, index])) or "the output"
    return f"{channel}, which varies by {worst.spread:.3g} around {worst.mean:.6g}"
