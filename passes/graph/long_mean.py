"""A mean of many values as means of means, whose sums float16 holds.

    mean over 160 x 160                 ==>      mean over 160 -> mean over 160
    mean over 2,048                     ==>      [..., 64, 32] -> mean over 32 -> mean over 64
    mean over 2,039, which has no factors      ==>      that over 2,048 with zeros at the end, times 2,048 / 2,039

Terms are added before they are divided, and float16 ends at 65,504: 2,048 values around 100 are infinite. Means of
equally many values are the mean of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
SHORT = 512
"""As many values of 128 are added in float16 without overflow."""
# A multiple of 64 above 512 has a factor from 16 on below its square root.
_ROUND, _LEAST = 64, 16


def emit_mean(emit: Emitter, x: Node, dims: Sequence[int], keep: bool, short: int = SHORT) -> Node:
    """Emit the mean of a value of fixed shape over some dimensions.

    Args:
        emit: where it goes.
        x: floats.
        dims: which to take the mean over; negative ones count from the end.
        keep: leave them, with one value each.
        short: the most values whose sum is taken at once.
    """
    shape: list[Any] = list(x.meta["val"].shape)
    places = sorted({dim % len(shape) for dim in dims}, reverse=True)
    if not is_long([shape[place] for place in places], short):
        return emit(aten.mean.dim, x, places[::-1], keep)
    for place in places:
        x = _along(emit, x, place, short)
    left = [size for place, size in enumerate(shape) if place not in places]
    return x if keep else emit(aten.reshape.default, x, left)


def is_long(sizes: Sequence[Any], short: int = SHORT) -> bool:
    """Whether a mean is over more values than are added at once; sizes that vary are not looked into."""
    return all(isinstance(size, int) for size in sizes) and math.prod(sizes) > short


def _along(emit: Emitter, x: Node, place: int, short: int) -> Node:
    """The mean over one dimension, which stays with one value."""
    shape: list[Any] = list(x.meta["val"].shape)
    size = shape[place]
    if size <= short:
        return emit(aten.mean.dim, x, [place], True)
    if (factor := _factor(size, short)) < _LEAST:
        return _of_padded(emit, x, place, short)
    before, after = math.prod(shape[:place]), math.prod(shape[place + 1 :])
    parts = emit(aten.reshape.default, x, [before, size // factor, factor, after])
    mean = _along(emit, emit(aten.mean.dim, parts, [2], True), 1, short)
    return emit(aten.reshape.default, mean, [*shape[:place], 1, *shape[place + 1 :]])


def _of_padded(emit: Emitter, x: Node, place: int, short: int) -> Node:
    """The mean along a dimension whose size has no factors: zeros are added up to one that has."""
    shape: list[Any] = list(x.meta["val"].shape)
    size = -(-shape[place] // _ROUND) * _ROUND
    zeros = [0, 0] * (len(shape) - 1 - place) + [0, size - shape[place]]
    padded = emit(aten.constant_pad_nd.default, x, zeros)
    return emit(aten.mul.Tensor, _along(emit, padded, place, short), size / shape[place])


def _factor(size: int, short: int) -> int:
    """The largest factor that is neither above the square root nor ``short``."""
    return next(each for each in range(min(math.isqrt(size), short), 0, -1) if size % each == 0)
