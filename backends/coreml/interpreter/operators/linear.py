"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.arguments import BinaryFunction, OperatorTable, ints, sizes

# Terms that are summed exactly before the running float16 sum is rounded. Apple publishes no such number.
TERMS = 32
_CONVOLVE = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
_TRANSPOSED = {3: F.conv_transpose1d, 4: F.conv_transpose2d, 5: F.conv_transpose3d}


def table(half: bool) -> OperatorTable:
    """The operators of matrix products and convolutions.

    Args:
        half: sums of float products are rounded to float16 after every TERMS terms.
    """
    product = half_product if half else _matmul
    return {
        "matmul": partial(_transposed_matmul, product),
        "linear": partial(_linear, product),
        "conv": partial(_conv, product, half),
        "conv_transpose": _conv_transpose,
        "einsum": _einsum,
        "scaled_dot_product_attention": partial(_attention, product),
    }


def _matmul(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def half_product(x: Tensor, y: Tensor) -> Tensor:
    """``x @ y`` with a running sum in float16: [..., M, K] @ [..., K, N], in and out float32."""
    if not x.is_floating_point() or y.dim() < 2:
        return x @ y
    parts = zip(x.split(TERMS, -1), y.split(TERMS, -2), strict=True)
    return _half_sum([(a @ b).half() for a, b in parts])


def _half_sum(parts: Sequence[Tensor]) -> Tensor:
    running = parts[0]
    for part in parts[1:]:
        running = running + part
    return running.float()


def _transposed_matmul(
    product: BinaryFunction,
    x: Tensor,
    y: Tensor,
    transpose_x: Tensor | bool = False,
    transpose_y: Tensor | bool = False,
) -> Tensor:
    x = x.transpose(-1, -2) if bool(transpose_x) else x
    return product(x, y.transpose(-1, -2) if bool(transpose_y) else y)


def _linear(product: BinaryFunction, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    result = product(x, weight.t())
    return result if bias is None else result + bias


def _conv(
    product: BinaryFunction,
    half: bool,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    strides: Any = (1,),
    pad_type: str = "valid",
    pad: Any = (),
    dilations: Any = (1,),
    groups: Tensor | int = 1,
) -> Tensor:
    """X [B, C, *spatial], weight [N, C / groups, *kernel] -> [B, N, *spatial]."""
    stride, dilation = sizes(strides, x, 2), sizes(dilations, x, 2)
    pairs = padding_pairs(x.shape[2:], weight.shape[2:], stride, dilation, pad_type, ints(pad))
    around = [size for pair in reversed(pairs) for size in pair]
    padded = F.pad(x, around) if any(around) else x
    if int(groups) == 1 and all(size == 1 for size in (*weight.shape[2:], *stride)):
        rows = product(weight.flatten(1), padded.flatten(2))
        result = rows.reshape(x.shape[0], weight.shape[0], *x.shape[2:])
    else:
        convolve = partial(_CONVOLVE[x.dim()], stride=stride, dilation=dilation, groups=int(groups))
        result = _half_conv(convolve, padded, weight) if half and int(groups) == 1 else convolve(padded, weight)
    return result if bias is None else result + bias.reshape(-1, *[1] * (x.dim() - 2))


def _half_conv(convolve: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor) -> Tensor:
    """A running float16 sum over groups of TERMS input channels."""
    parts = zip(x.split(TERMS, 1), weight.split(TERMS, 1), strict=True)
    return _half_sum([convolve(a, b).half() for a, b in parts])


def padding_pairs(
    spatial: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pad_type: str,
    pad: Sequence[int],
) -> list[tuple[int, int]]:
    """Elements before and after each spatial dimension, by MIL's ``pad_type``."""
    if pad_type == "custom":
        return [(pad[2 * i], pad[2 * i + 1]) for i in range(len(spatial))]
    if pad_type == "valid":
        return [(0, 0)] * len(spatial)
    pairs = []
    for size, width, step, gap in zip(spatial, kernel, stride, dilation, strict=True):
        total = max(0, (-(-size // step) - 1) * step + (width - 1) * gap + 1 - size)
        small, large = total // 2, total - total // 2
        pairs.append((large, small) if pad_type == "same_lower" else (small, large))
    return pairs


def _conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    pad: Any = (),
    output_shape: Tensor | None = None,
    pad_type: str = "valid",
    strides: Any = (1,),
    dilations: Any = (1,),
    groups: Tensor | int = 1,
) -> Tensor:
    """X [B, C, *spatial], weight [C, N / groups, *kernel]; padding is cut from the result."""
    stride, dilation = sizes(strides, x, 2), sizes(dilations, x, 2)
    full = _TRANSPOSED[x.dim()](x, weight, bias, stride=stride, dilation=dilation, groups=int(groups))
    spatial = [size * step for size, step in zip(x.shape[2:], stride, strict=True)]
    wanted = ints(output_shape)[2:] if output_shape is not None else spatial
    for index in range(x.dim() - 2):
        if pad_type == "custom":
            before, after = ints(pad)[2 * index : 2 * index + 2]
            size = full.shape[index + 2] - before - after if output_shape is None else wanted[index]
        elif pad_type == "valid":
            before, size = 0, full.shape[index + 2] if output_shape is None else wanted[index]
        else:
            size = wanted[index]
            before = max(0, full.shape[index + 2] - size) // 2
        full = full.narrow(index + 2, before, size)
    return full


def _einsum(values: Sequence[Tensor], equation: str) -> Tensor:
    return torch.einsum(equation, *values)


def _attention(
    product: BinaryFunction, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
) -> Tensor:
    """softmax(query @ key^T / sqrt(D) + mask) @ value; a bool mask says which scores count."""
    scores = product(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return product(torch.softmax(scores, -1), value)
