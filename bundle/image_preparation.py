"""How images become the tiles of a vision-language model, and what their places in a prompt look like, as data.

A bundle has it as ``images/preparation.json``: made at export from transformers' own processor and compared with it,
read by the runner and by apps (``engine/vision``). Python itself goes on using the processor.

    image -> [grid: scaled, cut into parts] -> tiles of bytes [H, W, 3] -> (byte * scale - mean) / std, [3, H, W]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from edgec.bundle.limited_json import JsonKind, read_model
from edgec.bundle.part import JsonPart

IMAGE_FOLDER = "images"
"""The folder of a bundle with the files that say how an image becomes the input of a vision-language model."""
PREPARATION = f"{IMAGE_FOLDER}/preparation.json"
"""Its path in a bundle."""
Resampling = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]
"""How pixels are mixed, as Pillow does; in the order of Pillow's numbers."""
LONGEST_EDGE = 4096
"""Pixels that the longer edge of a scaled image has at most, as Idefics3's processor limits it."""
MAX_PIXELS = 100_000_000
"""Of an image from outside; three bytes each: what a phone's largest photographs have."""
MAX_RATIO = 100
"""How many times one side of an image may have the pixels of the other: processors scale the shorter edge to the
encoder's size, so that a line of pixels would become an image without end."""
_KIND = JsonKind("The bundle's preparation of images cannot be read.", "export the model again", "E770", 1 << 20)
_Edge = Annotated[int, Field(ge=1, le=1 << 14)]
_Tiles = Annotated[int, Field(ge=1, le=64)]
_Factor = Annotated[float, Field(gt=0, le=1e6)]
_Text = Annotated[str, Field(max_length=256)]
_Level = Annotated[int, Field(ge=0, le=255)]


class ImageLevels(JsonPart):
    """What a byte of a pixel becomes: (byte * ``scale`` - ``mean``) / ``std`` of its colour, each step in float32."""

    scale: _Factor
    mean: tuple[float, float, float]
    std: tuple[_Factor, _Factor, _Factor]


class WholeImage(JsonPart):
    """How a whole image becomes one tile.

    ``fit``: ``stretch`` to the tile's size; ``cover`` it, so that the shorter edge has ``edge`` pixels and the middle
    is cut out, with black where the image is smaller; or ``contain``, in the middle of ``colour`` with its proportions.
    """

    fit: Literal["stretch", "cover", "contain"]
    resample: Resampling
    edge: _Edge | None = None
    colour: tuple[_Level, _Level, _Level] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.edge is not None) != (self.fit == "cover") or (self.colour is not None) != (self.fit == "contain"):
            raise ValueError(f"an edge belongs to cover, a colour to contain, and the fit is {self.fit}")
        return self


class LargeImages(JsonPart):
    """Which images are cut: whose edges, rounded to ``step`` and at least ``least``, cover over ``above`` pixels."""

    step: _Edge
    least: _Edge
    above: Annotated[float, Field(ge=0, le=1e12)]


class ImageGrid(JsonPart):
    """How an image is cut into a grid of tiles.

    ``longest_edge``: the longer edge gets ``edge`` pixels, then both are rounded up to whole tiles (Idefics3, SmolVLM).
    ``proportions``: the grid of ``fewest`` to ``most`` tiles whose proportions are nearest to the image's (InternVL,
    LFM2-VL); ``sharing``: no more of them than an equal part of the context holds, of which one is left to the text.
    ``whole``: where the whole image follows the parts, if there are several.
    """

    rule: Literal["longest_edge", "proportions"]
    whole: Literal["last", "none"]
    edge: _Edge | None = None
    fewest: _Tiles | None = None
    most: _Tiles | None = None
    large: LargeImages | None = None
    sharing: Literal["context", "none"] = "none"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.edge is not None) != (self.rule == "longest_edge") or (self.fewest is None) != (self.most is None):
            raise ValueError("an edge belongs to longest_edge, and fewest belongs with most")
        if (self.most is not None) != (self.rule == "proportions"):
            raise ValueError("the fewest and most tiles belong to proportions")
        return self


class GridTexts(JsonPart):
    """What stands around the rows of an image's parts; ``{row}`` and ``{column}`` count from 1.

    ``begin``, then ``tile`` and its rows for each part and ``line`` after each line of them, then ``whole`` and the
    rows of the whole image where it follows, then ``end``.
    """

    begin: _Text
    tile: _Text
    line: _Text
    whole: _Text
    end: _Text


class ImageTexts(JsonPart):
    """What takes the place of ``placeholder`` in a prompt: ``row`` for each row of a tile, and marks around them.

    ``before`` and ``after``: around the rows of an image in one tile; ``grid``: of one in several. ``after_images``
    follows the last image of a prompt, ``end`` the prompt. ``special_tokens``: whether the tokenizer adds its own.
    """

    placeholder: Annotated[str, Field(min_length=1, max_length=64)]
    row: Annotated[str, Field(min_length=1, max_length=64)]
    before: _Text = ""
    after: _Text = ""
    grid: GridTexts | None = None
    after_images: _Text = ""
    end: _Text = ""
    special_tokens: Literal["as_text", "never"] = "as_text"


class Preparation(JsonPart):
    """How images become tiles and texts."""

    levels: ImageLevels
    whole: WholeImage
    texts: ImageTexts
    grid: ImageGrid | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.grid is None) != (self.texts.grid is None):
            raise ValueError("a grid and its texts belong together")
        return self


class PreparationFile(JsonPart):
    """``images/preparation.json``: either the preparation, or why the processor's cannot be written down."""

    preparation: Preparation | None = None
    lacking: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.preparation is None) != bool(self.lacking):
            raise ValueError("either a preparation or the reason why there is none")
        return self


def preparation_bytes(file: PreparationFile) -> bytes:
    """The file's text: absent parts are left out, names are sorted."""
    fields = file.model_dump(mode="json", exclude_defaults=True)
    return (json.dumps(fields, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_preparation(bundle: Path) -> PreparationFile | None:
    """The file of a bundle; None where an older edgec wrote none.

    Raises:
        InputError: E770, it cannot be read.
    """
    path = bundle / PREPARATION
    return read_model(path, PreparationFile, _KIND) if path.is_file() else None
