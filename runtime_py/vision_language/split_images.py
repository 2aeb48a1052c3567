"""Images as LFM2-VL reads them: whole in one tile, or a large one cut into a grid of tiles, and whole behind them.

    1600 x 1200 -> 1536 x 1024 -> 3 x 2 tiles of 512 x 512, row by row -> the whole image in a seventh tile

transformers prepares these images with torchvision only; here it is Pillow, which rounds otherwise. The tiles of a grid
are those that transformers cuts; an image in one tile keeps its proportions on the mean colour, since the export fixed
the size that transformers would choose for each image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from edgec.bundle.entry_points import VisionLanguageInfo
from edgec.bundle.part import JsonSize
from edgec.runtime_py.vision_language.fixed_size import fitted

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_Count = Annotated[int, Field(ge=1, le=64)]
_Colour = tuple[float, float, float]


class SplittingDescription(BaseModel):
    """What ``preprocessor_config.json`` says about images of LFM2-VL; its defaults are transformers'."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    do_image_splitting: bool = True
    min_tiles: _Count = 2
    max_tiles: _Count = 10
    use_thumbnail: bool = True
    max_image_tokens: JsonSize = 256
    tile_size: JsonSize = 512
    max_pixels_tolerance: float = Field(default=2.0, gt=0)
    resample: Annotated[int, Field(ge=0, le=5)] = 2
    do_rescale: bool = True
    rescale_factor: float = Field(default=1 / 255, gt=0)
    do_normalize: bool = True
    image_mean: _Colour = (0.5, 0.5, 0.5)
    image_std: _Colour = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class SplitImages:
    """What transformers' processor of LFM2-VL uses in place of an image processor.

    Attributes:
        described: how images are cut and normalised.
        info: the model's tile, and how much its context holds.
    """

    described: SplittingDescription
    info: VisionLanguageInfo

    @property
    def tile_size(self) -> int:
        """Pixels of a tile of a grid along each side."""
        return self.info.height

    @property
    def use_thumbnail(self) -> bool:
        """Whether the whole image follows its parts."""
        return self.described.use_thumbnail

    @property
    def encoder_patch_size(self) -> int:
        """Pixels of a patch along each side."""
        assert self.info.patches is not None
        return self.info.patches.size

    @property
    def downsample_factor(self) -> int:
        """Patches of a row of features along each side."""
        assert self.info.patches is not None
        return self.info.patches.merge

    def fetch_images(self, images: Any) -> Any:
        """The images, which are there already."""
        return images

    def __call__(self, images: Sequence[Sequence[PillowImage]], **_: Any) -> Mapping[str, Any]:
        """The tiles of all images [N, C, H, W] in order, and the grid of each image."""
        every = list(chain.from_iterable(images))
        grids = [self._grid(*image.size, len(every)) for image in every]
        tiles = [tile for image, grid in zip(every, grids, strict=True) for tile in self._tiles(image, *grid)]
        return {
            "pixel_values": np.stack([self._normalised(tile) for tile in tiles]),
            "image_cols": [columns for columns, _ in grids],
            "image_rows": [rows for _, rows in grids],
            "image_sizes": [[self.info.height, self.info.width]] * len(every),
        }

    def _grid(self, width: int, height: int, images: int) -> tuple[int, int]:
        """Columns and rows of tiles; an equal part of the context is left to each image, and one to the text."""
        described, info = self.described, self.info
        most = (info.limits.context // info.rows - 1) // images - described.use_thumbnail
        square = info.height == info.width == described.tile_size
        if not (described.do_image_splitting and square and self._is_large(width, height)):
            return 1, 1
        return nearest_grid(width, height, info.height, described.min_tiles, min(most, described.max_tiles))

    def _is_large(self, width: int, height: int) -> bool:
        step = self.info.step
        area = prod(max(self.encoder_patch_size, round(edge / step) * step) for edge in (width, height))
        return area > self.described.max_image_tokens * step**2 * self.described.max_pixels_tolerance

    def _tiles(self, image: PillowImage, columns: int, rows: int) -> list[PillowImage]:
        described, edge = self.described, self.info.height
        whole = fitted(image, self.info, described.image_mean, described.resample)
        if columns * rows == 1:
            return [whole]
        scaled = image.resize((columns * edge, rows * edge), described.resample)
        places = product(range(0, rows * edge, edge), range(0, columns * edge, edge))
        parts = [scaled.crop((x, y, x + edge, y + edge)) for y, x in places]
        return [*parts, *([whole] if described.use_thumbnail else [])]

    def _normalised(self, tile: PillowImage) -> NDArray[np.float32]:
        """A tile [C, H, W] of values as the model knows them."""
        described = self.described
        values = np.asarray(tile, np.float32).transpose(2, 0, 1)
        levels = np.float32(1 / described.rescale_factor if described.do_rescale else 1)
        if not described.do_normalize:
            return values / levels
        mean, std = (
            levels * np.array(part, np.float32)[:, None, None] for part in (described.image_mean, described.image_std)
        )
        normalised: NDArray[np.float32] = (values - mean) / std
        return normalised


def nearest_grid(width: int, height: int, edge: int, fewest: int, most: int) -> tuple[int, int]:
    """The columns and rows whose proportions are next to an image's; (1, 1) where no number of tiles is allowed.

    Args:
        width: of the image, pixels.
        height: of the image, pixels.
        edge: of a tile, pixels.
        fewest: tiles of a grid.
        most: tiles of a grid.
    """
    grids = [each for each in product(range(1, most + 1), repeat=2) if fewest <= each[0] * each[1] <= most]
    if not grids:
        return 1, 1
    nearest = min(abs(width / height - columns / rows) for columns, rows in grids)
    alike = sorted((c * r, c, r) for c, r in grids if abs(width / height - c / r) == nearest)
    # Of grids with equal proportions, the finest that the image fills at least by half.
    filled = [each for each in alike if width * height > 0.5 * edge**2 * each[0]]
    _, columns, rows = filled[-1] if filled else alike[0]
    return columns, rows
