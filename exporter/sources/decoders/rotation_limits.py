"""Models whose rotary frequencies follow from the length of a text, by their configs.

    LongRoPE      Phi-3.5, Phi-4-mini ...: short factors up to original_max_position_embeddings, long ones beyond
    dynamic NTK   the first frequencies up to max_position_embeddings, others with every token beyond

transformers looks at the largest position of a call. Where keys are kept, a text then holds keys of both kinds, and
what is computed depends on how the text was cut into calls. An artifact has one set of frequencies for all positions:
the set that a text as long as its context has, as llama.cpp and vLLM choose it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, PositiveInt, ValidationError

from edgec.errors import InputError

LONG, DYNAMIC = "longrope", "dynamic"


@dataclass(frozen=True)
class RotationLimit:
    """Up to how long a text may be while its frequencies are the first ones.

    Attributes:
        tokens: in such a text.
        others: an artifact for longer texts can have their frequencies at all positions.
    """

    tokens: int
    others: bool


class _Rotation(BaseModel):
    rope_type: str | None = None
    type: str | None = None
    original_max_position_embeddings: PositiveInt | None = None
    # Scales of sines and cosines that Phi-3.5-MoE chooses by length; transformers leaves its factors short.
    short_mscale: float | None = None
    # HunYuan's "dynamic" with it is not: the base is stretched once.
    alpha: float | None = None

    @property
    def kind(self) -> str:
        return self.rope_type or self.type or ""


class _Positions(BaseModel):
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    max_position_embeddings: int | None = None
    original_max_position_embeddings: PositiveInt | None = None
    is_encoder_decoder: bool | None = None


def rotation_limit(text: Mapping[str, Any]) -> RotationLimit | None:
    """How long a text may be until its frequencies change; None where no text that the model was made for is.

    Args:
        text: the config of a decoder, or of another model that reads text.

    Raises:
        pydantic.ValidationError: a value is of another kind, or a number is not above 0.
    """
    config = _Positions.model_validate(text)
    limits = [limit for each in _rotations(config) if (limit := _limit(each, config)) is not None]
    return min(limits, key=lambda limit: (limit.tokens, limit.others), default=None)


def rotated_alike(text: Mapping[str, Any]) -> int | None:
    """How many tokens an encoder's text may have, as ``rotation_limit``; a config that it cannot read states none."""
    try:
        limit = rotation_limit(text)
    except ValidationError:
        return None
    return limit.tokens if limit else None


def _rotations(config: _Positions) -> Iterator[_Rotation]:
    """The parameters of all layers, or those of each kind of layers."""
    given = config.rope_parameters or config.rope_scaling or {}
    kinds = [value for value in given.values() if isinstance(value, Mapping)]
    yield from (_Rotation.model_validate(each) for each in kinds or [given])


def _limit(rotation: _Rotation, config: _Positions) -> RotationLimit | None:
    longest = config.max_position_embeddings
    if DYNAMIC in rotation.kind and not rotation.alpha and longest:
        return RotationLimit(longest, others=False)
    # transformers takes the number that stands beside the parameters (Phi-3) where there is one.
    original = config.original_max_position_embeddings or rotation.original_max_position_embeddings
    if rotation.kind != LONG or not original or (longest and longest <= original):
        return None
    return RotationLimit(original, others=rotation.short_mscale is None and not config.is_encoder_decoder)


def rotations_change(where: str, first: int, tokens: int) -> InputError:
    """The error for a text of more tokens than the first frequencies serve, where it cannot have others."""
    return InputError(
        what=f"beyond {first} tokens this model rotates queries and keys by other frequencies",
        where=where,
        why=f"{tokens} tokens were asked for, and no one set of frequencies is what transformers computes there",
        fix=f"use a context of {first} tokens or fewer (--context {first})",
        code="E742",
    )
