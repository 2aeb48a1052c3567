"""The inputs, outputs and states of a function: names, dtypes and allowed shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from edgec.backends.coreml.interpreter.graph import Graph, MilShape, ValueType


@dataclass(frozen=True)
class Feature:
    """An input, an output or a state.

    Attributes:
        shape: None for a dimension that varies.
        choices: the shapes that are allowed, where they are enumerated.
        bounds: (lowest, highest) of each dimension, where ranges are allowed; -1 for no upper bound.
    """

    name: str
    dtype: torch.dtype
    shape: MilShape
    choices: tuple[tuple[int, ...], ...] = ()
    bounds: tuple[tuple[int, int], ...] = ()

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape of something that cannot vary."""
        return tuple(-1 if size is None else size for size in self.shape)

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor of this shape may be given."""
        if self.choices:
            return shape in self.choices
        if self.bounds:
            return len(shape) == len(self.bounds) and all(
                low <= size and (high < 0 or size <= high) for size, (low, high) in zip(shape, self.bounds, strict=True)
            )
        return len(shape) == len(self.shape) and all(w in (None, s) for s, w in zip(shape, self.shape, strict=True))

    def described(self) -> str:
        """The allowed shapes in words."""
        if self.choices:
            return " or ".join(str(list(choice)) for choice in self.choices)
        if self.bounds:
            return "sizes within " + ", ".join(f"{low}..{high if high >= 0 else ''}" for low, high in self.bounds)
        return str([size if size is not None else "any" for size in self.shape])


def input_features(graph: Graph, described: Mapping[str, Any]) -> tuple[Feature, ...]:
    """Inputs of a function; ``described``: the model description's features by name, which know flexible shapes."""
    return tuple(_input(name, kind, described.get(name)) for name, kind in graph.inputs.items())


def _input(name: str, kind: ValueType, described: Any) -> Feature:
    plain = feature(name, kind)
    if described is None or described.type.WhichOneof("Type") != "multiArrayType":
        return plain
    array = described.type.multiArrayType
    flexible = array.WhichOneof("ShapeFlexibility")
    if flexible == "enumeratedShapes":
        choices = tuple(tuple(int(size) for size in s.shape) for s in array.enumeratedShapes.shapes)
        return Feature(name, plain.dtype, plain.shape, choices=choices)
    if flexible == "shapeRange":
        ranges = tuple((int(r.lowerBound), int(r.upperBound)) for r in array.shapeRange.sizeRanges)
        return Feature(name, plain.dtype, plain.shape, bounds=ranges)
    return plain


def feature(name: str, kind: ValueType) -> Feature:
    """A feature as the program declares it; text counts as int64, which no tensor of a decoder is."""
    return Feature(name, kind.element.held if kind.element else torch.int64, kind.shape)
