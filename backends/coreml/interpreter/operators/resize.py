"""Resizing images [..., H, W]."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable


def _upsample_nearest(x: Tensor, scale_factor_height: Any = 1, scale_factor_width: Any = 1) -> Tensor:
    return F.interpolate(x, size=_scaled(x, scale_factor_height, scale_factor_width), mode="nearest")


def _scaled(x: Tensor, height: Any, width: Any) -> tuple[int, int]:
    return int(x.shape[-2] * float(height)), int(x.shape[-1] * float(width))


def _upsample_bilinear(
    x: Tensor,
    scale_factor_height: Any = 1,
    scale_factor_width: Any = 1,
    align_corners: Any = True,
    half_pixel_centers: Any = None,
) -> Tensor:
    """Upsample; without aligned corners, centres lie at half pixels unless ``half_pixel_centers`` is off."""
    size = _scaled(x, scale_factor_height, scale_factor_width)
    if not bool(align_corners) and half_pixel_centers is not None and not bool(half_pixel_centers):
        return _from_corner(x, size)
    return F.interpolate(x, size=size, mode="bilinear", align_corners=bool(align_corners))


def _from_corner(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Sample at i * old / new, clamped: neither corners nor centres are aligned."""
    for dim, length in zip((-2, -1), size, strict=True):
        place = torch.arange(length) * (x.shape[dim] / length)
        low = place.floor().long()
        high = (low + 1).clamp(max=x.shape[dim] - 1)
        share = (place - low).reshape([-1] + [1] * (-dim - 1))
        x = x.index_select(dim, low) * (1 - share) + x.index_select(dim, high) * share
    return x


def _resize_nearest(x: Tensor, target_size_height: Any, target_size_width: Any) -> Tensor:
    return F.interpolate(x, size=(int(target_size_height), int(target_size_width)), mode="nearest")


TABLE: OperatorTable = {
    "upsample_nearest_neighbor": _upsample_nearest,
    "upsample_bilinear": _upsample_bilinear,
    "resize_nearest_neighbor": _resize_nearest,
}
