"""Matrices of 8-bit floats with a scale for a tensor, for each row, or for blocks of rows and columns.

    weight            float8 [N, K]
    weight_scale_inv  float [ceil(N / rows), ceil(K / columns)], or powers of two as bytes: fine-grained FP8
    weight_scale      float [1], [N, 1] or as above                                       : compressed-tensors

A value is float8 * scale, in float32, as transformers and compressed-tensors dequantise. Despite its name
``weight_scale_inv`` is multiplied. No kernel of edgec reads 8-bit floats, so that these are rounded again.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from edgec.exporter.sources.packed.faults import bad_codes, bad_tensors
from edgec.exporter.sources.packed.integer_groups import check_scales
from edgec.exporter.sources.packed.parts import FLOATS, Parts, modules_with
from edgec.exporter.sources.packed.weights import FileWeights, PackedTensor

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
POWERS = (torch.uint8, torch.float8_e8m0fnu)
"""Powers of two, as the exponent plus 127 in a byte."""
_AT_ONCE = 1 << 22
_NAMES = {torch.float8_e4m3fn: "FP8 E4M3", torch.float8_e5m2: "FP8 E5M2"}
_NO_NUMBER = 255


class FineGrainedSettings(BaseModel):
    """What a fine-grained FP8 checkpoint says of itself.

    Attributes:
        weight_block_size: rows and columns that share a scale; None: the whole matrix.
        expert_dtype: of the experts' weights.
    """

    weight_block_size: tuple[int, int] | None = Field(default=(128, 128))
    expert_dtype: Literal["fp8"] = "fp8"


def fine_grained_tensors(weights: FileWeights, settings: FineGrainedSettings) -> dict[str, PackedTensor]:
    """The quantised matrices of a checkpoint by parameter.

    Raises:
        InputError: E816, E818, what is stored contradicts itself or the settings.
    """
    found = modules_with(weights, "weight_scale_inv")
    return {parts.parameter: float8_tensor(parts, "weight_scale_inv", settings.weight_block_size) for parts in found}


def float8_tensor(parts: Parts, scale_name: str, block: tuple[int, int] | None) -> PackedTensor:
    """A matrix of 8-bit floats as a parameter.

    Args:
        parts: its stored tensors.
        scale_name: that of the scales.
        block: rows and columns that share a scale; None: one for the tensor or for each row, as the scales' shape says.
    """
    entry = parts.entry("weight", FLOAT8)
    parts.entry(scale_name, (*FLOATS, *POWERS), None)
    scale, (rows, width) = numbers(parts.tensor(scale_name)), entry.shape
    sizes = block or (rows if scale.numel() == 1 else 1, width)
    if min(sizes) < 1:
        raise bad_tensors(f"{parts.module}.{scale_name}", f"blocks of {list(sizes)} are stated")
    grid = (-(-rows // sizes[0]), -(-width // sizes[1]))
    if scale.numel() != grid[0] * grid[1]:
        why = f"its shape is {list(scale.shape)}; {list(entry.shape)} in blocks of {list(sizes)} have {list(grid)}"
        raise bad_tensors(f"{parts.module}.{scale_name}", why)
    scale = scale.reshape(grid)
    check_scales(f"{parts.module}.{scale_name}", scale)
    used = parts.names("weight", scale_name)
    size = sum(parts.weights.names()[name].nbytes for name in used)
    read = partial(_values, parts, scale, sizes)
    reason = "no kernel reads 8-bit floats"
    return PackedTensor(_NAMES[entry.dtype], entry.shape, used, size, read, reason=reason)


def numbers(scale: Tensor) -> Tensor:
    """Scales as float32; bytes are powers of two, of which the largest is not a number."""
    if scale.dtype not in POWERS:
        return scale.float()
    exponents = scale.view(torch.uint8)
    powers = torch.ldexp(torch.ones(exponents.shape), exponents.to(torch.int32) - 127)
    return torch.where(exponents == _NO_NUMBER, torch.nan, powers)


def _values(parts: Parts, scale: Tensor, sizes: tuple[int, int]) -> Tensor:
    weight = parts.tensor("weight")
    values = torch.empty(weight.shape)
    # Whole blocks of rows, so that a block's scale is spread over few values at a time.
    step = sizes[0] * max(1, _AT_ONCE // (sizes[0] * weight.shape[1]))
    for start in range(0, len(weight), step):
        rows = weight[start : start + step].float()
        if not bool(rows.isfinite().all()):
            raise bad_codes(f"{parts.module}.weight", "some of its 8-bit floats are infinite or not numbers")
        spread = scale[start // sizes[0] : -(-(start + step) // sizes[0])].repeat_interleave(sizes[0], 0)[: len(rows)]
        values[start : start + step] = rows * spread.repeat_interleave(sizes[1], 1)[:, : weight.shape[1]]
    return values
