"""Images of one size for encoders that read any: scaled with their proportions, on a background, cut and joined again.

    image -> scaled, in the middle of the mean colour [H, W] -> processor -> patches [N * P, D] -> tiles [N, C, H, W]

The export fixed the size, and with it what the encoder computes of it. An image of other proportions is not stretched,
because the model never saw stretched ones: what is left of the tile has the colour that normalising turns into 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import VisionLanguageInfo

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_LIMITS = ("size", "min_pixels", "max_pixels")
# What Gemma 4's processor pads an image to.
_MOST_ROWS = (70, 140, 280, 560, 1120)
# Of Pillow's ways to scale; the module imports Pillow where images are at hand.
_BICUBIC = 3
_GRID, _PLACES = "image_grid_thw", "image_position_ids"


def keeping_size(described: Mapping[str, Any], info: VisionLanguageInfo) -> dict[str, Any]:
    """The description of an image processor that leaves images of the tile's size as they are."""
    kept = {key: value for key, value in described.items() if key not in _LIMITS}
    if info.patches is not None and info.patches.order == "lines":
        most = next((each for each in _MOST_ROWS if each >= info.rows), _MOST_ROWS[-1])
        return {**kept, "do_resize": False, "max_soft_tokens": most}
    pixels = info.height * info.width
    return {**kept, "size": {"shortest_edge": pixels, "longest_edge": pixels}}


def fitted(
    image: PillowImage, info: VisionLanguageInfo, mean: Sequence[float], resample: int = _BICUBIC
) -> PillowImage:
    """An image [height, width] with all of ``image`` in its middle.

    Args:
        image: of any size.
        info: says how large a tile is.
        mean: the background, 0..1 for each colour.
        resample: how pixels are mixed, by Pillow's number.
    """
    from PIL import ImageOps

    colour = tuple(round(255 * part) for part in mean)
    return ImageOps.pad(image, (info.width, info.height), resample, colour)


def joined_tiles(made: Mapping[str, Any], info: VisionLanguageInfo) -> NDArray[np.float32]:
    """Tiles [N, C, H, W] of what the processor cut them into.

    Args:
        made: its ``pixel_values``, [N * P, C * frames * size * size] block by block or [N, most, size * size * C] line
            by line; and where the patches lie. Tiles that edgec made itself are left as they are.
        info: says how they were cut.

    Raises:
        ValueError: they are those of images of another size.
    """
    patches = info.patches
    assert patches is not None
    values, high, wide = np.asarray(made["pixel_values"], np.float32), info.height, info.width
    if patches.order == "tiles":
        return values
    grid = (high // patches.size, wide // patches.size)
    if patches.order == "lines":
        return _joined_lines(values, np.asarray(made[_PLACES]), info, grid)
    if any(each != [1, *grid] for each in np.asarray(made[_GRID]).tolist()):
        raise _other_size(made[_GRID].tolist(), grid)
    merge, size, channels = patches.merge, patches.size, info.channels
    blocks = (high // info.step, wide // info.step)
    cut = values.reshape(-1, *blocks, merge, merge, channels, patches.frames, size, size)[:, :, :, :, :, :, 0]
    return cut.transpose(0, 5, 1, 3, 6, 2, 4, 7).reshape(-1, channels, high, wide)


def _joined_lines(
    values: NDArray[np.float32], places: NDArray[np.int64], info: VisionLanguageInfo, grid: tuple[int, int]
) -> NDArray[np.float32]:
    count, size = grid[0] * grid[1], info.height // grid[0]
    last = places[:, count - 1].tolist() if places.shape[1] >= count else []
    if any(each != [grid[1] - 1, grid[0] - 1] for each in last) or np.any(places[:, count:] != -1) or not last:
        raise _other_size((places.max(1) + 1).tolist(), grid[::-1])
    cut = values[:, :count].reshape(-1, *grid, size, size, info.channels)
    return cut.transpose(0, 5, 1, 3, 2, 4).reshape(-1, info.channels, info.height, info.width)


def _other_size(found: Any, grid: tuple[int, int]) -> ValueError:
    return ValueError(f"it cuts images into {found} patches, and the model reads {list(grid)}")
