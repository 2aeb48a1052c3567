"""Run a model in float32 over weights that stay in their stored dtype, so that nothing is held twice.

Inside the mode a bfloat16 or float16 tensor acts as the float32 tensor of the same values: its dtype reads as float32,
a look-up casts the rows that it takes, a linear layer casts blocks of rows, and every other function casts its
arguments. The results are those of a model loaded in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from edgec.ir.linear_memo import LinearMemo, LinearWeights
from edgec.ir.row_tensor import RowTensor

_BLOCK_VALUES = 1 << 22
_STORED = (torch.bfloat16, torch.float16)
_DTYPE = Tensor.dtype.__get__  # type: ignore[attr-defined]
# Functions that select or rearrange values without computing; casting later casts less.
_VIEWS = frozenset(
    (
        *(Tensor.__getitem__, Tensor.t, Tensor.transpose, Tensor.permute, Tensor.view, Tensor.reshape, Tensor.chunk),
        *(Tensor.split, Tensor.unbind, Tensor.select, Tensor.squeeze, Tensor.unsqueeze, Tensor.detach, Tensor.size),
        *(torch.t, torch.transpose, torch.permute, torch.reshape, torch.chunk, torch.split, torch.unbind),
        *(Tensor.dim, Tensor.numel, Tensor.__len__, Tensor.contiguous, Tensor.is_floating_point),
    )
)


class InFloat32(TorchFunctionMode):
    """While active, tensors stored in 16 bits act as float32.

    Args:
        memo: is given the products of linear layers, for a next run of the same model in another form.
    """

    def __init__(self, memo: LinearMemo | None = None) -> None:
        super().__init__()
        self.memo = memo

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _DTYPE:
            return torch.float32 if func(*args) in _STORED else func(*args)
        if func in _VIEWS or getattr(func, "__name__", "") == "__get__":
            return func(*args, **kwargs)
        if func is functional.linear and _by_blocks(args[1:2]):
            return _linear(self.memo, *args, **kwargs)
        if func is functional.embedding:
            return _widen(func(*args, **kwargs))
        return func(*tree_map_only(Tensor, _widen, args), **tree_map_only(Tensor, _widen, kwargs))


def _by_blocks(weights: Any) -> bool:
    """Whether a weight is to be read by blocks of rows: stored in 16 bits, or made when it is read."""
    return any(isinstance(each, RowTensor) or _DTYPE(each) in _STORED for each in weights if isinstance(each, Tensor))


def _widen(value: Tensor) -> Tensor:
    return value.float() if _DTYPE(value) in _STORED else value


def _linear(memo: LinearMemo | None, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = _widen(x).reshape(-1, x.shape[-1])
    if memo is None:
        result = _product(rows, weight, bias)
    else:
        result = memo.result(LinearWeights.plain(weight, bias), rows, lambda: _product(rows, weight, bias))
    return result.view(*x.shape[:-1], len(weight))


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear layer in float32, its stored weight in blocks of rows."""
    rows, width = weight.shape
    step = max(1, _BLOCK_VALUES // width)
    # Written in place at once: parts kept between the blocks' working copies would fragment the heap.
    result = x.new_empty(len(x), rows)
    for block in (slice(start, start + step) for start in range(0, rows, step)):
        part = None if bias is None else bias[block].float()
        result[:, block] = functional.linear(x, weight[block].float(), part)
    return result
