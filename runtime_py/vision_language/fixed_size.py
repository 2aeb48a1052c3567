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

from edgec.bundle.entry_points import PatchesInfo, VisionLanguageInfo

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_LIMITS = ("size", "min_pixels", "max_pixels")


def keeping_size(described: Mapping[str, Any], info: VisionLanguageInfo) -> dict[str, Any]:
    """The description of an image processor that leaves images of the tile's size as they are."""
    kept = {key: value for key, value in described.items() if key not in _LIMITS}
    pixels = info.height * info.width
    return {**kept, "size": {"shortest_edge": pixels, "longest_edge": pixels}}


def fitted(image: PillowImage, info: VisionLanguageInfo, mean: Sequence[float]) -> PillowImage:
    """An image [height, width] with all of ``image`` in its middle; ``mean``: the background, 0..1 for each colour."""
    from PIL import Image, ImageOps

    colour = tuple(round(255 * part) for part in mean)
    return ImageOps.pad(image, (info.width, info.height), Image.Resampling.BICUBIC, colour)


def joined_tiles(values: NDArray[np.float32], info: VisionLanguageInfo, patches: PatchesInfo) -> NDArray[np.float32]:
    """Tiles [N, C, H, W] of what the processor cut them into: [N * P, C * frames * size * size], block by block.

    Raises:
        ValueError: it is not that many values.
    """
    merge, size, channels = patches.merge, patches.size, info.channels
    blocks = (info.height // info.step, info.width // info.step)
    cut = values.reshape(-1, *blocks, merge, merge, channels, patches.frames, size, size)[:, :, :, :, :, :, 0]
    return cut.transpose(0, 5, 1, 3, 6, 2, 4, 7).reshape(-1, channels, info.height, info.width)
