"""Decoders whose layers choose which keys they attend to once a text has more than they keep, by their configs.

    Doge                       keep_window_size
    DeepSeek V3.2, GLM 5 ...   index_topk, 2,048 as published
    MiniMax M3                 index_topk_blocks of index_block_size keys
    Qwen 4                     indexer_budget in whole blocks of indexer_compress_ratio, and the keys after the last one

edgec attends to all keys, which is the same until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, PositiveInt

from edgec.errors import InputError


class _Kept(BaseModel):
    keep_window_size: PositiveInt | None = None
    index_topk: PositiveInt | None = None
    index_topk_blocks: PositiveInt | None = None
    index_block_size: PositiveInt = 1
    indexer_budget: PositiveInt | None = None
    indexer_compress_ratio: PositiveInt | None = None


def keys_before_choice(text: Mapping[str, Any]) -> int | None:
    """How many tokens a text may have while all its keys are attended to; None where they always are.

    Args:
        text: the config of a decoder.

    Raises:
        pydantic.ValidationError: a number is not above 0.
    """
    config = _Kept.model_validate(text)
    blocks, ratio = config.index_topk_blocks, config.indexer_compress_ratio or 1
    kept = (
        config.keep_window_size,
        config.index_topk,
        blocks and blocks * config.index_block_size,
        config.indexer_budget and config.indexer_budget // ratio * ratio + ratio - 1,
    )
    return min((keys for keys in kept if keys), default=None)


def keys_are_chosen(where: str, kept: int, tokens: int) -> InputError:
    """The error for a text of more tokens than layers attend to without choosing among their keys."""
    return InputError(
        what=f"from {kept + 1} tokens on, this model's layers choose the keys that they attend to",
        where=where,
        why=f"its config lets them keep {kept} keys, and {tokens} tokens were asked for; edgec attends to all keys",
        fix=f"use a context of {kept} tokens or fewer (--context {kept})",
        code="E740",
    )
