"""Differences of two answers in the unit that a user cares about: cents, pixels, points of a probability, angles."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks.real_networks.network import Unit


def cents(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The difference of two pitches, each the mean around the likeliest of 360 bins of 20 cents."""
    return abs(_pitch(one[0].flatten()) - _pitch(other[0].flatten()))


def most_cents(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference of pitch over the frames [1, T, 360] that the network is confident of."""
    sure = one[0][0].amax(-1) > 0.05
    return max((cents([a], [b]) for a, b in zip(one[0][0][sure], other[0][0][sure], strict=True)), default=0.0)


def _pitch(bins: Tensor) -> float:
    best = int(bins.argmax())
    near = torch.arange(max(0, best - 4), min(len(bins), best + 5))
    return float((20 * near * bins[near]).sum() / bins[near].sum())


def angle(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """One less the cosine of two vectors."""
    return 1 - float(nn.functional.cosine_similarity(one[0].double(), other[0].double()))


def points(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference of a probability, in hundredths."""
    return 100 * float((one[0] - other[0]).abs().max())


def class_points(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The same of scores that a softmax makes probabilities of."""
    return points([one[0].softmax(-1)], [other[0].softmax(-1)])


def greys(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference of a picture's channel, of 255."""
    return 255 * float((one[0] - other[0]).abs().max())


def pixels(size: int) -> Unit:
    """The largest difference of a box or a landmark, in pixels of a window of this size; it comes first."""
    return lambda one, other: size * max(float((a - b).abs().max()) for a, b in zip(one[:-1], other[:-1], strict=True))
