"""What a decoder reads beside tokens and positions, where its text has rows in the place of some tokens.

input_embeds [1, L, width], embeds_mask [1, L, 1], span_end [1, L]?, mrope_positions [3, L]?    of a whole text
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from edgec.ir.attention import SPAN_END

INPUT_EMBEDS, EMBEDS_MASK, MROPE = "input_embeds", "embeds_mask", "mrope_positions"
ROW_INPUTS = (INPUT_EMBEDS, EMBEDS_MASK, SPAN_END, MROPE)
"""All such inputs, in the order in which a method takes those that it has."""

Placed = Mapping[str, Tensor]
"""What a whole text has beside tokens and positions, by the inputs' names; tokens are in dimension 1."""

# Fixed shapes are for chips whose integers have 32 bits, and whose runtimes take no truth values.
_NARROW = {torch.int64: torch.int32, torch.bool: torch.float32}


def placed_part(placed: Placed, start: int, size: int) -> dict[str, Tensor]:
    """What so many tokens of a text have beside tokens and positions."""
    parts = {name: value[:, start : start + size] for name, value in placed.items()}
    return {**parts, SPAN_END: parts[SPAN_END][0]} if SPAN_END in parts else parts


def static_part(placed: Placed, start: int, size: int, width: int) -> dict[str, Tensor]:
    """The same for a method of fixed shapes: filled up with zeros to ``width`` tokens, in the types that it takes."""
    return {name: fixed_rows(name, value, width) for name, value in placed_part(placed, start, size).items()}


def fixed_rows(name: str, value: Tensor, width: int) -> Tensor:
    """One input of a call with zeros after its tokens, of which ``width`` are taken, in the type that is taken."""
    missing = width - value.shape[token_dimension(name)]
    after = [0, missing] if name in (SPAN_END, MROPE) else [0, 0, 0, missing]
    return F.pad(value.to(static_type(value.dtype)), after)


def static_type(dtype: torch.dtype) -> torch.dtype:
    """The type of such an input of a method of fixed shapes."""
    return _NARROW.get(dtype, dtype)


def token_dimension(name: str) -> int:
    """The dimension of a call's input that counts tokens."""
    return 0 if name == SPAN_END else 1
