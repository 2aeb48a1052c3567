"""Image encoders that read patches of images of any size: the export fixes the size, and all that follows from it.

    tile [1, C, H, W] -> patches [P, C * frames * size * size], in blocks of merge x merge      as the processor cuts it

Which patches attend to each other, where they lie and how the learned positions are stretched to them depend on the
size alone. Transformers' own functions compute it once, outside the traced code, which reads it as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from edgec.bundle.entry_points import PatchesInfo
from edgec.errors import InputError

Size = tuple[int, int]
"""Height and width in pixels."""
# Blocks on each side where the export does not say it: 256 rows, of which several images fit into a phone's context.
_BLOCKS = 16
_MOST_PIXELS = 1 << 16


def parsed_size(text: str) -> Size:
    """The size that ``--image-size`` names: ``HxW`` or the edge of a square.

    Raises:
        InputError: E720.
    """
    parts = text.lower().split("x")
    edges = [int(part[:9]) if part.isascii() and part.isdigit() else 0 for part in parts]
    if len(parts) > 2 or not all(0 < edge < _MOST_PIXELS for edge in edges):
        raise InputError(
            f"{text[:40]!r} is not the size of an image.",
            where="--image-size",
            why=f"it is neither HxW nor one number, each from 1 to {_MOST_PIXELS - 1}",
            fix="write the height and the width in pixels, for example 448x672",
            code="E720",
        )
    return edges[0], edges[-1]


def fixed_size(patches: PatchesInfo, asked: Size | None) -> Size:
    """The size of all images: the one that was asked for, or a square of 256 rows.

    Raises:
        InputError: E721, it is not cut into whole blocks of patches.
    """
    step = patches.size * patches.merge
    if asked is None:
        return _BLOCKS * step, _BLOCKS * step
    if any(edge % step for edge in asked):
        near = "x".join(str(max(1, round(edge / step)) * step) for edge in asked)
        raise InputError(
            f"Images of {asked[0]} x {asked[1]} pixels cannot be cut into this model's patches.",
            where="--image-size",
            why=f"its encoder reads blocks of {step} x {step} pixels",
            fix=f"use multiples of {step}, for example --image-size {near}",
            code="E721",
        )
    return asked


def refuse_size(asked: Size | None, model_type: str) -> None:
    """Refuse a size for a model whose images have one already.

    Raises:
        InputError: E721.
    """
    if asked is not None:
        raise InputError(
            f"The images of {model_type!r} cannot be given a size.",
            where="--image-size",
            why="its encoder reads tiles of one size, or edgec exports it without its vision",
            fix="leave --image-size out",
            code="E721",
        )


def cut_patches(patches: PatchesInfo | None, pixels: Tensor) -> dict[str, Tensor]:
    """A tile [1, C, H, W] as the processor of Qwen2-VL would hand it over; no value has more than five dimensions."""
    assert patches is not None
    _, channels, height, width = pixels.shape
    step, merge, size = patches.size * patches.merge, patches.merge, patches.size
    lines = pixels.reshape(channels, height // size, size, width // size, size).permute(1, 3, 0, 2, 4)
    blocks = lines.reshape(height // step, merge, width // step, merge, -1).permute(0, 2, 1, 3, 4)
    frames = blocks.reshape(-1, channels, 1, size * size).expand(-1, -1, patches.frames, -1)
    return {"pixel_values": frames.reshape(frames.shape[0], -1), "image_grid_thw": _grid(patches, height, width)}


def cut_lines(patches: PatchesInfo | None, pixels: Tensor) -> dict[str, Tensor]:
    """A tile [1, C, H, W] as the processor of Gemma 4 would hand it over, without the padding to its largest image."""
    assert patches is not None
    _, channels, height, width = pixels.shape
    high, wide, size = height // patches.size, width // patches.size, patches.size
    cut = pixels.reshape(channels, high, size, wide, size).permute(1, 3, 2, 4, 0)
    return {"pixel_values": cut.reshape(1, high * wide, -1), **_lines(high, wide)}


def cut_whole(patches: PatchesInfo | None, pixels: Tensor) -> dict[str, Tensor]:
    """A tile [1, C, H, W] as the processor of LFM2-VL would hand it over, without the padding to its largest image."""
    cut = cut_lines(patches, pixels)["pixel_values"]
    assert patches is not None
    shape = _grid(patches, *pixels.shape[2:])[:, 1:]
    return {"pixel_values": cut, "spatial_shapes": shape, "pixel_attention_mask": torch.ones(1, cut.shape[1]).int()}


def _lines(high: int, wide: int) -> dict[str, Tensor]:
    """The column and line of each patch, int64 [1, P, 2]."""
    places = torch.cartesian_prod(torch.arange(high), torch.arange(wide)).flip(1)
    return {"image_position_ids": places.unsqueeze(0)}


def _grid(patches: PatchesInfo, height: int, width: int) -> Tensor:
    return torch.tensor([[1, height // patches.size, width // patches.size]])


Computed = Callable[[Any, Tensor], Mapping[str, Any]]
"""A model and a grid, int64 [1, 3] -> what ``get_image_features`` is given or makes of it; sizes not as tensors."""


def in_lines(_: Any, grid: Tensor) -> Mapping[str, Any]:
    """Where each patch lies, and the size of the grid."""
    _, high, wide = grid[0].tolist()
    return {**_lines(high, wide), "grid": (high, wide)}


def attended(model: Any, grid: Tensor) -> Mapping[str, Any]:
    """Where each patch lies, and that all patches of an image attend to each other."""
    from transformers.vision_utils import get_vision_cu_seqlens, get_vision_position_ids

    # Model code makes lists of these two, which a traced tensor does not allow.
    sizes = {"image_cu_seqlens": get_vision_cu_seqlens(grid).numpy(), "image_grid_thw": grid.numpy()}
    return {**sizes, "image_position_ids": get_vision_position_ids(grid, model.visual.spatial_merge_size)}


def in_windows(model: Any, grid: Tensor) -> Mapping[str, Any]:
    """The order of patches by windows, and where each window ends."""
    from transformers.vision_utils import get_vision_window_index

    visual = model.visual
    order, ends = get_vision_window_index(grid, visual.spatial_merge_size, visual.window_size, visual.patch_size)
    return {"image_window_index": order, "image_cu_window_seqlens": ends.numpy()}


def stretched(model: Any, grid: Tensor) -> Mapping[str, Any]:
    """Which learned positions make up each patch's, and with which weights."""
    from transformers.vision_utils import get_vision_interpolation_indices_and_weights

    visual = model.visual
    indices, weights = get_vision_interpolation_indices_and_weights(
        grid,
        num_grid_per_side=visual.num_grid_per_side,
        mode=visual.interpolation_mode,
        align_corners=visual.interpolation_align_corners,
        spatial_merge_size=visual.spatial_merge_size,
    )
    return {"image_interp_indices": indices, "image_interp_weights": weights}


def constants_of(model: Any, patches: PatchesInfo, size: Size, computed: tuple[Computed, ...]) -> dict[str, Any]:
    """All that an encoder would compute of the size of its images, by the arguments of ``get_image_features``."""
    grid = _grid(patches, *size)
    return {name: value for each in computed for name, value in each(model, grid).items()}
