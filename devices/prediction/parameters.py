"""A decoder's parameters, in the kinds that the forecast counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from edgec.ir.spec import ModelSpec


class Kind(StrEnum):
    """What a parameter is used for; each kind has its own bits in a recipe."""

    EMBEDDING = "embedding"
    LM_HEAD = "lm_head"
    LINEAR = "linear"
    OTHER = "other"


@dataclass(frozen=True)
class Parameter:
    """One tensor of weights.

    Attributes:
        name: in the model's state dict; the first one where it has several.
        tied: the embedding and the lm_head share it; its kind is then ``LM_HEAD``.
        active: share that one token uses (mixture of experts: experts per token / experts; embedding: one row).
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    tied: bool = False
    active: float = 1.0

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class DecoderShape:
    """The shape of a decoder: its layers, and every parameter once."""

    spec: ModelSpec
    parameters: tuple[Parameter, ...]


def macs_per_token(listed: tuple[Parameter, ...]) -> int:
    """Multiply-accumulates with weights per token; attention over the context is not counted."""
    used = (p.count * p.active for p in listed if p.kind in (Kind.LINEAR, Kind.LM_HEAD))
    return round(sum(used))
