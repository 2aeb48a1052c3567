"""Reading and writing stretches of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, ints

Flags = Tensor | None


def _flags(values: Flags, rank: int) -> list[bool]:
    return [False] * rank if values is None else [bool(value) for value in values.reshape(-1).tolist()]


def indices(
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None,
    begin_mask: Flags,
    end_mask: Flags,
    squeeze_mask: Flags,
) -> tuple[list[range], list[int]]:
    """The indices that a slice takes of each dimension, and the dimensions that vanish from the result.

    Bounds count from the end when negative and are clamped to the dimension, as in numpy; a mask drops a bound.
    """
    rank = x.dim()
    steps = [1] * rank if stride is None else ints(stride)
    starts, stops = ints(begin), ints(end)
    open_start, open_stop, single = (_flags(mask, rank) for mask in (begin_mask, end_mask, squeeze_mask))
    chosen = []
    for dim, size in enumerate(x.shape):
        if single[dim]:
            at = starts[dim] % size if size else 0
            chosen.append(range(at, at + 1))
            continue
        stretch = slice(None if open_start[dim] else starts[dim], None if open_stop[dim] else stops[dim], steps[dim])
        chosen.append(range(*stretch.indices(size)))
    return chosen, [dim for dim in range(rank) if single[dim]]


def _slice_by_index(
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None = None,
    begin_mask: Flags = None,
    end_mask: Flags = None,
    squeeze_mask: Flags = None,
) -> Tensor:
    chosen, vanishing = indices(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    for dim, wanted in enumerate(chosen):
        x = _taken(x, dim, wanted)
    return x.squeeze(tuple(vanishing)) if vanishing else x


def _taken(x: Tensor, dim: int, wanted: range) -> Tensor:
    if wanted.step < 0:
        return x.index_select(dim, torch.tensor(list(wanted), dtype=torch.int64))
    return x[(slice(None),) * dim + (slice(wanted.start, max(wanted.start, wanted.stop), wanted.step),)]


def _slice_by_size(x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """A size of -1 goes to the end."""
    for dim, (start, length) in enumerate(zip(ints(begin), ints(size), strict=True)):
        x = x.narrow(dim, start, x.shape[dim] - start if length == -1 else length)
    return x


def _slice_update(
    x: Tensor,
    update: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: Tensor | None = None,
    begin_mask: Flags = None,
    end_mask: Flags = None,
    squeeze_mask: Flags = None,
) -> Tensor:
    chosen, _ = indices(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    result = x.clone()
    where = tuple(_grid(chosen))
    result[where] = update.reshape([len(wanted) for wanted in chosen]).to(x.dtype)
    return result


def _grid(chosen: Sequence[range]) -> list[slice | Tensor]:
    """Slices where steps are positive; otherwise index tensors that span the grid."""
    if all(wanted.step > 0 for wanted in chosen):
        return [slice(wanted.start, max(wanted.start, wanted.stop), wanted.step) for wanted in chosen]
    rank = len(chosen)
    shapes = [[1] * dim + [-1] + [1] * (rank - dim - 1) for dim in range(rank)]
    return [
        torch.tensor(list(wanted), dtype=torch.int64).reshape(shape)
        for wanted, shape in zip(chosen, shapes, strict=True)
    ]


TABLE: OperatorTable = {
    "slice_by_index": _slice_by_index,
    "slice_by_size": _slice_by_size,
    "slice_update": _slice_update,
}
