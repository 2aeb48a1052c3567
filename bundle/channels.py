"""Channels: parts of an output that vary by themselves, and the size of each.

    [1, positions, channels] , [1, channels, positions] , [1, channels, height, width]
      -> the whole, and each index along each axis -> spread around its own mean -> the size beside which it is judged

One tensor may hold values of different sizes: boxes in pixels beside scores below one, or a channel of 30,000 that
varies by 5. Beside the tensor's largest value a lost score makes no difference at all; beside its own spread it is one.
A channel that hardly varies is judged by its own size. Axes of positions and of a batch are left out where the inputs
tell them; along others of few channels the values are too few to have a spread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Fewer values, as the two logits of a token, may lie close together by chance.
FEWEST = 8
# Sums in float32 end about a millionth of their terms away from each other, and terms may be ten times a channel's own
# values; these are below the tensor's largest. Measured: 1e-5 of a channel and 4e-7 of the largest, on a random T5.
_HARDLY = _ROUNDING = 1e-5
_ROUNDING_OF_MOST = 1e-6
# Beside the tensor's largest value, what float32 itself does not hold where both were computed from the same.
_NOTHING = 1e-7
# What a constant near zero may differ by, beside the tensor's largest value.
_NEAR_ZERO = 1e-3
# A sigmoid, softmax or cosine this close to 1 is pressed against it: float16 has no value between 1 - 2^-11 and 1.
_PRESSED = 2.0**-10
SMALLEST_HALF = 2.0**-14
"""Below its smallest normal number float16 holds few digits, and some chips none."""


@dataclass(frozen=True)
class Channel:
    """A channel of an output and how far it differs.

    Attributes:
        axis: along which it is one index; None: the whole output.
        index: along that axis.
        mean: of its values.
        spread: the largest distance of a value from the mean.
        share: the largest difference, beyond float32's own rounding, beside the channel's size.
    """

    axis: int | None
    index: int
    mean: float
    spread: float
    share: float


def shared_axes(shape: Sequence[int], inputs: Sequence[tuple[Sequence[int], bool]]) -> frozenset[int]:
    """The axes of an output that count examples or positions, as far as the inputs tell.

    Args:
        shape: of the output.
        inputs: shape of each input, and whether it holds integers: [B, S] tokens lie at the positions of axis 1, and
            an image [B, C, H, W] at those of its two last axes.
    """
    shapes = [tuple(each) for each, _ in inputs]
    found = {0} if shape and (shape[0] == 1 or any(each[:1] == (shape[0],) for each in shapes)) else set[int]()
    if len(shape) > 1 and any(counts and len(each) > 1 and each[1] == shape[1] for each, counts in inputs):
        found.add(1)
    if len(shape) > 2 and any(len(each) == 4 and each[-2:] == tuple(shape[-2:]) for each in shapes):
        found |= {len(shape) - 2, len(shape) - 1}
    return frozenset(found)


def worst_channel(reference: Values, candidate: Values, shared: Collection[int], smallest: float = 0.0) -> Channel:
    """The channel that differs most beside its own size; values that are not a number in the reference do not count.

    Args:
        reference: of any shape.
        candidate: of the same shape, finite where the reference is a number.
        shared: axes of positions and of a batch.
        smallest: spreads up to this are none, as the format of the candidate cannot hold them.
    """
    gap = np.abs(reference - candidate)
    found = [_worst_along(reference, gap, axis, smallest) for axis in _axes(reference.shape, shared)]
    return max(found, key=lambda channel: channel.share)


def value_sizes(values: Values, shared: Collection[int], smallest: float = 0.0) -> Values:
    """For each value the size of the smallest channel it lies in, in the shape of the values."""
    sizes = np.full(values.shape, np.inf)
    for axis in _axes(values.shape, shared):
        size = _Sizes.of(values, axis, smallest).size
        sizes = np.minimum(sizes, size[0] if axis is None else _along(size, axis, values.ndim))
    return sizes


def _axes(shape: Sequence[int], shared: Collection[int]) -> list[int | None]:
    """The whole, and each axis whose channels have enough values."""
    count = int(np.prod(shape))
    own = [axis for axis, size in enumerate(shape) if axis not in shared and 1 < size <= count // FEWEST]
    return [None, *own]


def _along(values: Values, axis: int, rank: int) -> Values:
    return values.reshape([-1 if each == axis else 1 for each in range(rank)])


@dataclass(frozen=True)
class _Sizes:
    """Of each channel along one axis: mean, spread, float32's own rounding, and the size beside which it is judged."""

    mean: Values
    spread: Values
    rounding: Values
    size: Values

    @classmethod
    def of(cls, values: Values, axis: int | None, smallest: float) -> _Sizes:
        rows = _rows(values, axis)
        known = ~np.isnan(rows)
        count = np.maximum(known.sum(1), 1)
        mean = np.where(known, rows, 0.0).sum(1) / count
        spread = np.where(known, np.abs(rows - mean[:, None]), 0.0).max(1)
        largest = np.where(known, np.abs(rows), 0.0).max(1)
        most = float(largest.max())
        hardly = spread <= np.maximum(_HARDLY * np.abs(mean), max(_NOTHING * most, smallest))
        pressed = (largest <= 1 + 1e-6) & (np.abs(mean) >= 1 - _PRESSED) & (spread <= _PRESSED)
        own_size = np.maximum(largest, max(_NEAR_ZERO * most, smallest, 1e-30))
        few = count < FEWEST
        rounding = np.maximum(_ROUNDING * largest, _ROUNDING_OF_MOST * most)
        return cls(mean, spread, rounding, np.where(hardly | pressed | few, own_size, spread))


def _rows(values: Any, axis: int | None) -> Any:
    """Each channel along an axis as a row."""
    return values.reshape(1, -1) if axis is None else np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)


def _worst_along(reference: Values, gap: Values, axis: int | None, smallest: float) -> Channel:
    sizes = _Sizes.of(reference, axis, smallest)
    rows = _rows(gap, axis)
    beyond = np.maximum(np.where(np.isnan(rows), 0.0, rows).max(1) - sizes.rounding, 0.0)
    share = beyond / sizes.size
    index = int(share.argmax())
    return Channel(axis, index, float(sizes.mean[index]), float(sizes.spread[index]), float(share[index]))
