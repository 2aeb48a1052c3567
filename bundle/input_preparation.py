"""How an image or a sound becomes an input of a network, as data: a factory declares it, a bundle's manifest says it.

    image -> stretched, covering or contained -> colours -> (byte * scale - mean) / std -> [1, C, H, W] or [1, H, W, C]
    sound -> one channel -> windows of the input's length, ``step`` samples apart -> values * scale -> [1, N]

Sizes are those of the input. Files of another sampling rate are refused, not resampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from edgec.bundle.image_preparation import Resampling, WholeImage
from edgec.bundle.part import JsonPart
from edgec.errors import InputError

_Number = Annotated[float, Field(ge=-1e6, le=1e6)]
_Positive = Annotated[float, Field(gt=0, le=1e6)]
_Edge = Annotated[int, Field(ge=1, le=1 << 14)]
_Level = Annotated[int, Field(ge=0, le=255)]
_Black = (0, 0, 0)
COLOURS = {"RGB": 3, "BGR": 3, "grey": 1}
"""The orders of channels, and how many each has."""


class ImagePreparation(JsonPart):
    """How an image becomes an input.

    Attributes:
        colours: the order of channels; ``grey`` has one, as Pillow's ``L``.
        channels: whether they come before height and width, or after.
        scale: a byte is multiplied by it first; 1/255 gives 0 to 1.
        mean: subtracted then, of all channels or of each.
        std: what divides then, likewise.
        fit: ``stretch`` to the input's size; ``cover`` it, and cut the middle out; ``contain`` in the middle of
            ``colour``.
        edge: of ``cover``: the pixels of the image's shorter edge before it is cut; by default the input's longer side.
        colour: of ``contain``: red, green and blue, 0 to 255; by default black.
        resample: how pixels are mixed, as Pillow does.
    """

    kind: Literal["image"]
    colours: Literal["RGB", "BGR", "grey"] = "RGB"
    channels: Literal["first", "last"] = "first"
    scale: _Positive = 1 / 255
    mean: _Number | tuple[_Number, ...] = 0.0
    std: _Positive | tuple[_Positive, ...] = 1.0
    fit: Literal["stretch", "cover", "contain"] = "stretch"
    resample: Resampling = "bilinear"
    edge: _Edge | None = None
    colour: tuple[_Level, _Level, _Level] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.edge is not None and self.fit != "cover") or (self.colour is not None and self.fit != "contain"):
            raise ValueError(f"an edge belongs to cover, a colour to contain, and the fit is {self.fit}")
        wanted = COLOURS[self.colours]
        for name in ("mean", "std"):
            given = getattr(self, name)
            if isinstance(given, tuple) and len(given) != wanted:
                raise ValueError(f"{name} has {len(given)} numbers, and {self.colours} has {wanted} channels")
        return self

    def whole(self, height: int, width: int) -> WholeImage:
        """How the image is brought to a size."""
        edge = (self.edge or max(height, width)) if self.fit == "cover" else None
        colour = (self.colour or _Black) if self.fit == "contain" else None
        return WholeImage(fit=self.fit, resample=self.resample, edge=edge, colour=colour)


class SoundPreparation(JsonPart):
    """How a sound becomes an input.

    Attributes:
        rate: samples a second.
        step: samples from the beginning of a window to that of the next; by default the input's length.
        scale: samples, from -1 to 1, are multiplied by it.
        level: ``as_read``, or each window gets the mean 0 and the spread 1.
    """

    kind: Literal["sound"]
    rate: Annotated[int, Field(ge=100, le=1_000_000)]
    step: Annotated[int, Field(ge=1, le=1 << 26)] | None = None
    scale: _Positive = 1.0
    level: Literal["as_read", "mean_and_spread"] = "as_read"


InputPreparation = Annotated[ImagePreparation | SoundPreparation, Field(discriminator="kind")]
Preparations = Mapping[str, ImagePreparation | SoundPreparation]
_READ: TypeAdapter[ImagePreparation | SoundPreparation] = TypeAdapter(InputPreparation)


def read_preparations(declared: Any, names: list[str], where: str) -> Preparations:
    """Check what a factory declares of its inputs.

    Args:
        declared: a dict by input, each value a dict with ``kind`` and the fields above.
        names: of the module's inputs.
        where: the factory.

    Raises:
        InputError: E850, it is not such a dict, names no input, or a field is unknown or out of range.
    """
    if not isinstance(declared, dict):
        raise _fault(where, f"it is a {type(declared).__name__}, not a dict")
    if unknown := [str(name) for name in declared if name not in names]:
        raise _fault(where, f"there is no input {', '.join(unknown)[:100]}; the inputs are {', '.join(names)}")
    return {name: _read(name, value, where) for name, value in declared.items()}


def _read(name: str, value: Any, where: str) -> ImagePreparation | SoundPreparation:
    if isinstance(value, ImagePreparation | SoundPreparation):
        return value
    try:
        return _READ.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part not in ("image", "sound"))
        raise _fault(where, f"{name}{'.' if place else ''}{place}: {first['msg']}"[:300]) from error


def _fault(where: str, why: str) -> InputError:
    return InputError(
        what="What the factory declares of its inputs is wrong.",
        where=where,
        why=why,
        fix='return a dict such as {"x": {"kind": "image", "mean": [0.5, 0.5, 0.5]}}; docs/modules.md has the fields',
        code="E850",
    )
