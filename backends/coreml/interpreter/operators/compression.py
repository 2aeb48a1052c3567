"""Compressed weights (``constexpr_``): what each form decompresses to, in its iOS 16 and its iOS 18 spelling.

iOS 16 packs indices and masks into bytes and gives the ``shape``; iOS 18 has types of 1 to 6 bits, with shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from edgec.backends.coreml.interpreter.blob import unpacked
from edgec.backends.coreml.interpreter.element_types import BY_NAME
from edgec.backends.coreml.interpreter.operators.arguments import ints


def affine_dequantize(quantized_data: Tensor, zero_point: Tensor, scale: Tensor, axis: Tensor) -> Tensor:
    """IOS 16: scale * (data - zero_point), both a scalar or one value per index of ``axis``."""
    shape = [1] * quantized_data.dim()
    shape[int(axis)] = -1
    centred = quantized_data.float() - _along(zero_point, shape).float()
    return (centred * _along(scale, shape).float()).to(scale.dtype)


def _along(values: Tensor, shape: list[int]) -> Tensor:
    return values.reshape(shape) if values.dim() else values


def blockwise_shift_scale(data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """IOS 18: scale * (data - offset); each scale serves a block of data.shape / scale.shape values."""
    centred = data.float() if offset is None else data.float() - spread(offset, data).float()
    return (centred * spread(scale, data).float()).to(scale.dtype)


def spread(values: Tensor, like: Tensor) -> Tensor:
    """``values`` with each element repeated so that the shape is that of ``like``."""
    for dim, size in enumerate(like.shape):
        values = values.repeat_interleave(size // values.shape[dim], dim) if values.shape[dim] != size else values
    return values


def lut_to_dense(
    indices: Tensor, lut: Tensor, shape: Tensor | None = None, vector_axis: Tensor | None = None
) -> Tensor:
    """Indices into tables; iOS 16 has one table and packed indices, iOS 18 tables [..., 2^bits, vector] by groups."""
    if shape is not None:
        bits = int(math.log2(lut.numel()))
        size = ints(shape)
        return lut[torch.from_numpy(unpacked(indices.numpy(), bits, math.prod(size))).long()].reshape(size)
    groups, entries, vector = lut.shape[:-2], lut.shape[-2], lut.shape[-1]
    table = torch.arange(math.prod(groups)).reshape(groups)
    # Which table serves each element, then one look-up in all tables laid end to end.
    flat = spread(table, indices) * entries + indices.long()
    vectors = lut.reshape(-1, vector)[flat]
    return vectors[..., 0] if vector == 1 else _laid_along(vectors, int(vector_axis if vector_axis is not None else -1))


def _laid_along(vectors: Tensor, axis: int) -> Tensor:
    """[..., vector] with the last dimension merged into ``axis`` of the others."""
    axis %= vectors.dim() - 1
    moved = vectors.movedim(-1, axis + 1)
    return moved.flatten(axis, axis + 1)


def sparse_to_dense(nonzero_data: Tensor, mask: Tensor, shape: Tensor | None = None) -> Tensor:
    """Values where the mask is set, zeros elsewhere."""
    if shape is not None:
        size = ints(shape)
        mask = torch.from_numpy(unpacked(mask.numpy(), 1, math.prod(size))).reshape(size)
    dense = torch.zeros(mask.shape, dtype=nonzero_data.dtype)
    dense[mask.bool()] = nonzero_data
    return dense


def lut_to_sparse(
    indices_mask: Tensor, indices_nonzero_data: Tensor, lut: Tensor, vector_axis: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mask and values of a sparse weight whose values are indices into tables."""
    dense = lut_to_dense(sparse_to_dense(indices_nonzero_data, indices_mask), lut, vector_axis=vector_axis)
    mask = indices_mask
    if lut.shape[-1] > 1:
        mask = mask.repeat_interleave(lut.shape[-1], int(vector_axis if vector_axis is not None else -1))
    return mask, dense[mask.bool()]


def sparse_blockwise_shift_scale(
    data_mask: Tensor, nonzero_data: Tensor, scale: Tensor, offset: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mask and values of a sparse weight whose values are quantised."""
    dense = blockwise_shift_scale(sparse_to_dense(nonzero_data, data_mask), scale, offset)
    return data_mask, dense[data_mask.bool()]


def cast(source_val: Tensor, output_dtype: str) -> Tensor:
    """Convert a weight's values to another float type."""
    return source_val.to(BY_NAME[output_dtype].held)


DECOMPRESSIONS: Mapping[str, Callable[..., Any]] = {
    "constexpr_affine_dequantize": affine_dequantize,
    "constexpr_blockwise_shift_scale": blockwise_shift_scale,
    "constexpr_lut_to_dense": lut_to_dense,
    "constexpr_sparse_to_dense": sparse_to_dense,
    "constexpr_lut_to_sparse": lut_to_sparse,
    "constexpr_sparse_blockwise_shift_scale": sparse_blockwise_shift_scale,
    "constexpr_cast": cast,
}
