"""Resizing images [..., H, W], and taking their values between pixels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.backends.coreml.interpreter.operators.arguments import OperatorTable

# How far before the first pixel's centre a mirror stands.
_MIRRORS = {"reflection": 0.0, "symmetric": 0.5}


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


def _resample(
    x: Tensor,
    coordinates: Tensor,
    sampling_mode: str = "bilinear",
    padding_mode: str = "constant",
    padding_value: Any = 0.0,
    coordinates_mode: str = "unnormalized",
    align_corners: Any = True,
) -> Tensor:
    """The values of images [B, C, H, W] at places (x, y) [B, H2, W2, 2]."""
    size = torch.tensor([x.shape[3], x.shape[2]], dtype=torch.float32)
    place = _pixels(coordinates.float(), size, coordinates_mode, bool(align_corners))
    if padding_mode in _MIRRORS:
        place = _mirrored(place, size, _MIRRORS[padding_mode])
    constant = padding_mode == "constant"
    # torch pads with zeros: the padding's value is taken out before, and put back.
    outside = float(padding_value) if constant else 0.0
    # Pixel 0 lies at 1 / size - 1 for torch, where corners are not aligned.
    taken = F.grid_sample(
        x - outside,
        ((2 * place + 1) / size - 1).to(x.dtype),
        mode=sampling_mode,
        padding_mode="zeros" if constant else "border",
        align_corners=False,
    )
    return taken + outside


def _pixels(places: Tensor, size: Tensor, mode: str, aligned: bool) -> Tensor:
    """Places in pixels, from the centre of the first."""
    if mode == "unnormalized":
        return places
    share = (places + 1) / 2 if mode == "normalized_minus_one_to_one" else places
    return share * (size - 1) if aligned else share * size - 0.5


def _mirrored(place: Tensor, size: Tensor, before: float) -> Tensor:
    """Places outside an image seen in mirrors at its first and last pixel, or at their outer edges."""
    reach = (size - 1 + 2 * before).clamp(min=1e-6)
    turned = (place + before).remainder(2 * reach)
    return torch.minimum(turned, 2 * reach - turned) - before


TABLE: OperatorTable = {
    "resample": _resample,
    "upsample_nearest_neighbor": _upsample_nearest,
    "upsample_bilinear": _upsample_bilinear,
    "resize_nearest_neighbor": _resize_nearest,
}
