"""Operators that reduce dimensions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, ints

Reduce = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def table(half: bool) -> OperatorTable:
    """The operators of reductions.

    Args:
        half: a sum of floats is rounded to float16 before it is used further, so that it overflows as one.
    """

    def total(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
        summed = x.sum(dims, keep, dtype=x.dtype)
        return summed.half().float() if half and x.dtype == torch.float32 else summed

    def mean(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
        count = 1
        for dim in dims:
            count *= x.shape[dim]
        return total(x, dims, keep) / count

    return {
        "reduce_sum": _over_axes(total),
        "reduce_mean": _over_axes(mean),
        "reduce_max": _over_axes(lambda x, dims, keep: x.amax(dims, keep)),
        "reduce_min": _over_axes(lambda x, dims, keep: x.amin(dims, keep)),
        "reduce_prod": _over_axes(_product),
        "reduce_l1_norm": _over_axes(lambda x, dims, keep: total(x.abs(), dims, keep)),
        "reduce_l2_norm": _over_axes(lambda x, dims, keep: total(x * x, dims, keep).sqrt()),
        "reduce_sum_square": _over_axes(lambda x, dims, keep: total(x * x, dims, keep)),
        "reduce_log_sum": _over_axes(lambda x, dims, keep: total(x, dims, keep).log()),
        "reduce_log_sum_exp": _over_axes(torch.logsumexp),
        "reduce_argmax": _arg(torch.argmax),
        "reduce_argmin": _arg(torch.argmin),
    }


def _over_axes(reduce: Reduce) -> Callable[..., Tensor]:
    def run(x: Tensor, axes: Tensor | None = None, keep_dims: Tensor | bool = False) -> Tensor:
        dims = range(x.dim()) if axes is None else (axis % x.dim() for axis in ints(axes))
        return reduce(x, tuple(dims), bool(keep_dims))

    return run


def _product(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keep, dtype=x.dtype)
    return x


def _arg(find: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(x: Tensor, axis: Tensor | int = -1, keep_dims: Tensor | bool = False, output_dtype: str = "") -> Tensor:
        return find(x, int(axis), bool(keep_dims))

    return run
