"""SentencePiece's table of replacements (``precompiled_charsmap``), checked before any library walks through it.

    4 bytes: the size of the trie | the trie: units of 4 bytes (a double array) | the replacements, each ended by a zero

Libraries make room for the size that it claims, and follow the trie's offsets without looking where they lead.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

_LEAF: Final = 1 << 31
_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5
_PIECES: Final = 1
_NORMALISERS: Final = (3, 5)
"""Fields of a SentencePiece model: what is done to a text, and what undoes it."""
_TABLE: Final = 2


def longest_replacement(table: bytes) -> int:
    """Characters that one character of a text may become, counted decomposed.

    Raises:
        ValueError: it is not such a table.
    """
    if not table:
        return 1
    size = struct.unpack_from("<I", table)[0] if len(table) >= 4 else 0
    if size % 4 or not size or 4 + size > len(table):
        raise ValueError("precompiled_charsmap is damaged: its trie does not have the size that it claims")
    if not _inside(table[4 : 4 + size], len(table) - 4 - size):
        raise ValueError("precompiled_charsmap is damaged: its trie leads outside")
    try:
        texts = table[4 + size :].decode()
    except UnicodeDecodeError as cause:
        raise ValueError("precompiled_charsmap is damaged: its replacements are not UTF-8") from cause
    return max(len(unicodedata.normalize("NFKD", text)) for text in texts.split("\0"))


def _inside(trie: bytes, replacements: int) -> bool:
    """Whether every step from a unit of the trie stays in it, and every leaf names a place in the replacements."""
    import numpy as np

    units = np.frombuffer(trie, "<u4").astype(np.int64)
    leaves = units >= _LEAF
    inner = np.flatnonzero(~leaves)
    offsets = (units[inner] >> 10) << ((units[inner] & (1 << 9)) >> 6)
    # The root's own offset is where a walk begins; a byte of the text changes the lowest eight bits.
    steps_inside = ((inner ^ offsets) | 0xFF) < len(units)
    return bool(steps_inside.all() and (units[leaves] - _LEAF < replacements).all())


def tables_of_model(model: bytes) -> list[bytes]:
    """The tables in a SentencePiece model.

    Raises:
        ValueError: the bytes are something else.
    """
    try:
        held = [(number, value) for number, value in _fields(model) if isinstance(value, bytes)]
        if _PIECES not in dict(held):
            raise ValueError("it has no pieces")
        steps = [value for number, value in held if number in _NORMALISERS]
        return [table for step in steps for number, table in _fields(step) if number == _TABLE]
    except IndexError as cause:
        raise ValueError("it is not a SentencePiece model") from cause


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and values of a protobuf message's fields."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        else:
            size = {_WIDE: 8, _NARROW: 4}.get(kind, -1)
        if size < 0 or at + size > len(message):
            raise ValueError("not a message")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        byte = message[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("not a message")
