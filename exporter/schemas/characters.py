"""Characters as the bytes of UTF-8 that a JSON string spells them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from edgec.exporter.schemas.regular import Regular, RegularPool

# Spelled by a letter after a backslash; other control characters would need \u, which no text has.
_ESCAPED: Final = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 0x22: '"', 0x5C: "\\"}
_UNSPELLED: Final = frozenset({*range(0x20), 0x7F}) - frozenset(_ESCAPED)
LAST_CHARACTER: Final = 0x10FFFF
_ENCODED: Final = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, LAST_CHARACTER))
CharacterRanges = tuple[tuple[int, int], ...]
ANY_CHARACTER: Final[CharacterRanges] = ((0, LAST_CHARACTER),)


def spelled(pool: RegularPool, ranges: Iterable[tuple[int, int]]) -> Regular:
    """One character of some ranges of code points, as it stands within a JSON string."""
    plain, letters, longer = 0, 0, []
    for low, high in ranges:
        for code in range(low, min(high, 0x7F) + 1):
            if code in _ESCAPED:
                letters |= 1 << ord(_ESCAPED[code])
            elif code not in _UNSPELLED:
                plain |= 1 << code
        longer += [part for first, last in _ENCODED[1:] for part in _utf8(pool, max(low, first), min(high, last))]
    escapes = pool.then(pool.one_of(1 << 0x5C), pool.one_of(letters))
    return pool.either(pool.one_of(plain), escapes, *longer)


def encoded(pool: RegularPool, ranges: Iterable[tuple[int, int]]) -> Regular:
    """One character of some ranges of code points, as UTF-8 has it."""
    return pool.either(
        *(
            part
            for low, high in ranges
            for first, last in _ENCODED
            for part in _utf8(pool, max(low, first), min(high, last))
        )
    )


def spelled_text(text: str) -> bytes | None:
    """A text as it stands within a JSON string; None where a character has no spelling."""
    if any(ord(char) in _UNSPELLED or 0xD800 <= ord(char) <= 0xDFFF for char in text):
        return None
    return "".join(f"\\{_ESCAPED[ord(char)]}" if ord(char) in _ESCAPED else char for char in text).encode()


def _utf8(pool: RegularPool, low: int, high: int) -> Iterator[Regular]:
    """The encodings of a range whose characters all take the same number of bytes."""
    if low <= high:
        yield from _between(pool, chr(low).encode(), chr(high).encode())


def _between(pool: RegularPool, low: bytes, high: bytes) -> Iterator[Regular]:
    """Byte strings from ``low`` to ``high``, of one length, whose later bytes lie in 0x80..0xBF."""
    first, last = low[0], high[0]
    if len(low) == 1:
        yield pool.one_of(_mask(first, last))
        return
    bottom, top = b"\x80" * (len(low) - 1), b"\xbf" * (len(low) - 1)
    if first == last:
        for rest in _between(pool, low[1:], high[1:]):
            yield pool.then(pool.one_of(_mask(first, first)), rest)
        return
    if low[1:] != bottom:
        yield from _between(pool, low, bytes([first]) + top)
        first += 1
    if high[1:] != top:
        yield from _between(pool, bytes([last]) + bottom, high)
        last -= 1
    if first <= last:
        yield pool.then(pool.one_of(_mask(first, last)), *[pool.one_of(_mask(0x80, 0xBF))] * (len(low) - 1))


def _mask(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low)


def without(ranges: CharacterRanges) -> CharacterRanges:
    """All code points outside some ranges."""
    out, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            out.append((start, low - 1))
        start = max(start, high + 1)
    return (*out, *(((start, LAST_CHARACTER),) if start <= LAST_CHARACTER else ()))
