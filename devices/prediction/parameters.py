"""A decoder's parameters as the forecast counts them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from edgec.ir.spec import ModelSpec


class Kind(StrEnum):
    """What a parameter is used for; each kind has its own bits in a recipe."""

    EMBEDDING = "embedding"
    VOCABULARY = "vocabulary matrix"
    LINEAR = "linear"
    OTHER = "other"


@dataclass(frozen=True)
class Parameter:
    """One tensor of weights.

    Attributes:
        name: as in the model's state dict, the first of its names.
        tied: it is the embedding and the vocabulary matrix at once; its kind is then ``VOCABULARY``.
        active: share of it that one token uses (mixture of experts: experts per token / experts; embedding: a row).
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    tied: bool = False
    active: float = 1.0

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class DecoderShape:
    """What a forecast knows of a decoder: its layers, and every parameter once."""

    spec: ModelSpec
    parameters: tuple[Parameter, ...]


def macs_per_token(listed: tuple[Parameter, ...]) -> int:
    """Multiply-accumulates that weights cost per token, attention over the context not counted."""
    used = (p.count * p.active for p in listed if p.kind in (Kind.LINEAR, Kind.VOCABULARY))
    return round(sum(used))
