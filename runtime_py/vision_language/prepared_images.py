"""A bundle's preparation of images, carried out with Pillow as ``engine/vision`` does it.

An export compares it with transformers' processor, so that what a bundle says of its images is what its model expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import VisionLanguageInfo
from edgec.bundle.image_preparation import LONGEST_EDGE, ImageGrid, LargeImages, Preparation, Resampling, WholeImage
from edgec.runtime_py.vision_language.split_images import nearest_grid

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

PixelSize = tuple[int, int]
"""Width and height."""


@dataclass(frozen=True)
class PreparedImages:
    """How a model's images are prepared.

    Attributes:
        preparation: as data.
        info: the model's tile, and how much its context holds.
    """

    preparation: Preparation
    info: VisionLanguageInfo

    def grid(self, width: int, height: int, images: int) -> PixelSize:
        """Columns and lines of the tiles of an image, one of ``images`` in its prompt; 1 and 1: it is not cut."""
        grid = self.preparation.grid
        if grid is None:
            return 1, 1
        if grid.rule == "longest_edge":
            canvas = self._canvas(grid, width, height)
            return canvas[0] // self.info.width, canvas[1] // self.info.height
        if grid.large is not None and not _is_large(grid.large, width, height):
            return 1, 1
        assert grid.fewest is not None and grid.most is not None
        most = min(grid.most, self._share(images) - (grid.whole == "last") if grid.sharing == "context" else grid.most)
        # The tile's edge stands for its area, in pixels.
        return nearest_grid(width, height, self.info.height, grid.fewest, most)

    def tiles(self, image: PillowImage, images: int = 1) -> NDArray[np.float32]:
        """The tiles of an image, float32 [N, 3, H, W]; ``images``: how many its prompt has."""
        levels = self.preparation.levels
        parts = np.stack([np.asarray(part) for part in self._parts(image, images)])
        scaled = (parts.astype(np.float64) * levels.scale).astype(np.float32)
        mean, std = np.array(levels.mean, np.float32), np.array(levels.std, np.float32)
        normalised: NDArray[np.float32] = (scaled - mean) / std
        return normalised.transpose(0, 3, 1, 2)

    def text(self, width: int, height: int, images: int = 1) -> str:
        """What takes the place of such an image's placeholder."""
        texts, (columns, lines) = self.preparation.texts, self.grid(width, height, images)
        rows = texts.row * self.info.rows
        if texts.grid is None or columns * lines == 1:
            return texts.before + rows + texts.after
        marks, out = texts.grid, [texts.grid.begin]
        for line in range(lines):
            for column in range(columns):
                out += [marks.tile.replace("{row}", str(line + 1)).replace("{column}", str(column + 1)), rows]
            out.append(marks.line)
        assert self.preparation.grid is not None
        out += [marks.whole, rows] if self.preparation.grid.whole == "last" else []
        return "".join([*out, marks.end])

    def prompt(self, text: str, sizes: Sequence[PixelSize]) -> str:
        """A prompt's text with those of its images; images without a place come first."""
        texts = self.preparation.texts
        text = text if texts.placeholder in text else texts.placeholder * len(sizes) + text
        *pieces, last = text.split(texts.placeholder)
        filled = [piece + self.text(*size, len(sizes)) for piece, size in zip(pieces, sizes, strict=True)]
        return "".join([*filled, texts.after_images, last, texts.end])

    def _share(self, images: int) -> int:
        """Tiles that an image may have of the context."""
        return (self.info.limits.context // self.info.rows - 1) // images

    def _parts(self, image: PillowImage, images: int) -> list[PillowImage]:
        grid, high, wide = self.preparation.grid, self.info.height, self.info.width
        resample = get_args(Resampling).index(self.preparation.whole.resample)
        columns, lines = self.grid(image.width, image.height, images)
        whole = image
        if grid is not None and grid.rule == "longest_edge":
            assert grid.edge is not None
            image = image.resize(longest_edge(image.width, image.height, grid.edge), resample)
            image = whole = image.resize((columns * wide, lines * high), resample)
        if columns * lines == 1:
            return [self._whole(whole)]
        image = image.resize((columns * wide, lines * high), resample)
        corners = product(range(0, lines * high, high), range(0, columns * wide, wide))
        parts = [image.crop((x, y, x + wide, y + high)) for y, x in corners]
        return [*parts, self._whole(whole)] if grid is not None and grid.whole == "last" else parts

    def _whole(self, image: PillowImage) -> PillowImage:
        return fitted(image, self.preparation.whole, (self.info.width, self.info.height))

    def _canvas(self, grid: ImageGrid, width: int, height: int) -> PixelSize:
        assert grid.edge is not None
        width, height = longest_edge(width, height, grid.edge)
        return whole_tiles(width, height, self.info.height)


def fitted(image: PillowImage, whole: WholeImage, size: PixelSize) -> PillowImage:
    """An image as one tile of a size."""
    from PIL import ImageOps

    resample = get_args(Resampling).index(whole.resample)
    if whole.fit == "stretch":
        return image.resize(size, resample)
    if whole.fit == "contain":
        return ImageOps.pad(image, size, resample, whole.colour)
    assert whole.edge is not None
    image = image.resize(covering(image.width, image.height, whole.edge), resample)
    left, top = (image.width - size[0]) // 2, (image.height - size[1]) // 2
    return image.crop((left, top, left + size[0], top + size[1]))


def longest_edge(width: int, height: int, edge: int) -> PixelSize:
    """The size whose longer edge has so many pixels, the other an even number, neither above ``LONGEST_EDGE``."""
    ratio = width / height
    if width >= height:
        width, height = edge, int(edge / ratio)
        height += height % 2
    else:
        width, height = int(edge * ratio), edge
        width += width % 2
    width, height = max(width, 1), max(height, 1)
    ratio = width / height
    if width >= height and width > LONGEST_EDGE:
        width, height = LONGEST_EDGE, int(LONGEST_EDGE / ratio)
    elif height > width and height > LONGEST_EDGE:
        width, height = int(LONGEST_EDGE * ratio), LONGEST_EDGE
    return max(width, 1), max(height, 1)


def whole_tiles(width: int, height: int, edge: int) -> PixelSize:
    """The size rounded up to whole tiles, the longer edge first."""
    ratio = width / height
    if width >= height:
        width = ceil(width / edge) * edge
        return width, ceil(int(width / ratio) / edge) * edge
    height = ceil(height / edge) * edge
    return ceil(int(height * ratio) / edge) * edge, height


def covering(width: int, height: int, edge: int) -> PixelSize:
    """The size whose shorter edge has so many pixels."""
    return (edge, int(edge * height / width)) if width <= height else (int(edge * width / height), edge)


def _is_large(large: LargeImages, width: int, height: int) -> bool:
    wide, high = (max(large.least, round(edge / large.step) * large.step) for edge in (width, height))
    return wide * high > large.above
