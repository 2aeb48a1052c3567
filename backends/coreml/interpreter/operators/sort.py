"""Sort, cumulative-sum and one-hot operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, of_x


def _topk(
    x: Tensor,
    k: Any = 1,
    axis: Any = -1,
    ascending: Any = False,
    sort: Any = True,
    return_indices: Any = True,
    output_indices_dtype: str = "int32",
) -> Any:
    """The k largest (smallest when ``ascending``) values, in order, and where they are."""
    count = x.shape[int(axis)] if int(k) == -1 else int(k)
    top = torch.topk(x, count, int(axis), not bool(ascending))
    return (top.values, top.indices) if bool(return_indices) else top.values


def _argsort(x: Tensor, axis: Any = -1, ascending: Any = False) -> Tensor:
    return torch.argsort(x, dim=int(axis), descending=not bool(ascending), stable=True)


def _cumsum(x: Tensor, axis: Any = 0, exclusive: Any = False, reverse: Any = False) -> Tensor:
    dim = int(axis)
    line = x.flip(dim) if bool(reverse) else x
    total = line.cumsum(dim, dtype=x.dtype)
    total = total - line if bool(exclusive) else total
    return total.flip(dim) if bool(reverse) else total


def _one_hot(
    indices: Tensor, one_hot_vector_size: Any, axis: Any = -1, on_value: Any = 1, off_value: Any = 0
) -> Tensor:
    """A new dimension at ``axis`` that holds ``on_value`` at the index; none where the index lies outside."""
    rank = indices.dim() + 1
    places = torch.arange(int(one_hot_vector_size)).reshape([-1] + [1] * (rank - 1 - int(axis) % rank))
    return torch.where(indices.unsqueeze(int(axis)) == places, torch.as_tensor(on_value), torch.as_tensor(off_value))


COMPUTING: OperatorTable = {"topk": _topk, "argsort": _argsort, "cumsum": _cumsum}
MOVING: OperatorTable = {"one_hot": _one_hot, "non_zero": of_x(torch.nonzero)}
