"""Pooling operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable, ints, sizes
from edgec.backends.coreml.interpreter.operators.linear import padding_pairs


def _windows(
    x: Tensor, kernel: Sequence[int], strides: Any, pad_type: str, pad: Any, ceil_mode: Any, outside: float
) -> Tensor:
    """[B, C, *out, window]: what each place of the kernel covers; ``outside`` stands for padding."""
    stride = sizes(strides, x, 2)
    pairs = padding_pairs(x.shape[2:], kernel, stride, [1] * len(kernel), pad_type, ints(pad))
    if bool(ceil_mode):
        pairs = [
            (low, high + -(size + low + high - width) % step)
            for size, width, step, (low, high) in zip(x.shape[2:], kernel, stride, pairs, strict=True)
        ]
    padded = F.pad(x, [n for pair in reversed(pairs) for n in pair], value=outside)
    for dim, (width, step) in enumerate(zip(kernel, stride, strict=True)):
        padded = padded.unfold(dim + 2, width, step)
    return padded.flatten(x.dim())


def _max_pool(
    x: Tensor, kernel_sizes: Tensor, pad_type: str, strides: Any = (1,), pad: Any = (), ceil_mode: Any = False
) -> Tensor:
    return _windows(x, ints(kernel_sizes), strides, pad_type, pad, ceil_mode, float("-inf")).amax(-1)


def _avg_pool(
    x: Tensor,
    kernel_sizes: Tensor,
    pad_type: str,
    strides: Any = (1,),
    pad: Any = (),
    ceil_mode: Any = False,
    exclude_padding_from_average: Any = False,
) -> Tensor:
    options = (ints(kernel_sizes), strides, pad_type, pad, ceil_mode, 0.0)
    total = _windows(x, *options)
    if not bool(exclude_padding_from_average):
        return total.mean(-1)
    return total.sum(-1) / _windows(torch.ones_like(x), *options).sum(-1)


def _l2_pool(
    x: Tensor, kernel_sizes: Tensor, pad_type: str, strides: Any = (1,), pad: Any = (), ceil_mode: Any = False
) -> Tensor:
    return _windows(x, ints(kernel_sizes), strides, pad_type, pad, ceil_mode, 0.0).square().sum(-1).sqrt()


TABLE: OperatorTable = {"max_pool": _max_pool, "avg_pool": _avg_pool, "l2_pool": _l2_pool}
