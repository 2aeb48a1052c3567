"""Integers of a few bits in 32-bit words, one after the other from the lowest bit on, also across words."""

from __future__ import annotations

import torch
from torch import Tensor

_VALUES = 32
"""So many integers of b bits fill b words."""


def words_for(count: int, bits: int) -> int:
    """The words that hold so many integers."""
    return -(-count * bits // 32)


def unpacked(words: Tensor, bits: int, count: int) -> Tensor:
    """The integers of each row.

    Args:
        words: int32 [rows, words].
        bits: of an integer, 1 to 8.
        count: integers of a row; those that fill up the last words are left out.

    Returns:
        uint8 [rows, count].
    """
    rows = words.shape[0]
    runs = torch.nn.functional.pad(words, (0, -words.shape[1] % bits)).view(rows, -1, bits)
    codes = torch.empty(rows, runs.shape[1], _VALUES, dtype=torch.uint8)
    for place in range(_VALUES):
        codes[:, :, place] = _at(runs, place * bits, bits)
    return codes.view(rows, -1)[:, :count].contiguous()


def _at(runs: Tensor, start: int, bits: int) -> Tensor:
    """The integers at bit ``start`` of each run of words, int32."""
    word, offset = divmod(start, 32)
    inside = min(bits, 32 - offset)
    lower = (runs[:, :, word] >> offset) & ((1 << inside) - 1)
    if inside == bits:
        return lower
    return lower | (runs[:, :, word + 1] & ((1 << bits - inside) - 1)) << inside
