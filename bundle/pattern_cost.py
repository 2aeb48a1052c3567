r"""How much work a regular expression of a tokenizer.json can be, told from its text: a bound, or that none is known.

Such expressions (Oniguruma's, Ruby syntax) are matched by going back and trying otherwise. What that may cost at one
place of a text is the product of the choices that come before the last part that can fail: ``\s*[\r\n]+`` has one
that grows with the text, ``.*.*x`` two, ``(a+)+b`` exponentially many. Expressions in published tokenizers have at
most one. What this reader does not know counts as unbounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

_STRETCH: Final = 64  # characters of a stretch of text that a part may take as many of as it likes
_MOST_REPEATS: Final = 256
_MOST_CHARACTERS: Final = 4096
_MOST_LEVELS: Final = 32
CHEAP: Final = 48 * _STRETCH
"""Work up to which at most one part's choices grow with the text."""

_ESCAPE: Final = re.compile(
    r"\\(?:[pP]\{\^?[\w ]+\}|x\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|[^\w]|[sSdDwWhHrntfva])"
)
_PLACE: Final = re.compile(r"\\[bBAzZ]|[\^$]")
_OPENING: Final = re.compile(r"\((?:\?(?P<kind>[imsx-]*:|=|!|<=|<!|>|<\w+>))?")
_REPEAT: Final = re.compile(
    r"(?P<plain>[?*+])(?P<manner>[?+]?)|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}(?P<lazy>\??)"
)


class _UnknownPart(ValueError):
    """A part of an expression that this reader does not know."""


@dataclass(frozen=True)
class _Part:
    """A part of an expression.

    Attributes:
        least: characters that it takes at least.
        ways: how it can match at one place.
        work: what it costs where nothing after it fails.
        fails: whether it can fail to match.
    """

    least: int
    ways: float
    work: float = 1.0
    fails: bool = True


def pattern_work(pattern: str) -> float:
    """A bound of the steps that an expression takes at one place; infinite where none is known."""
    try:
        return _read(pattern).work
    except _UnknownPart:
        return math.inf


def shortest_match(pattern: str) -> int:
    """Characters that an expression takes at least; 0 where it is not known."""
    try:
        return _read(pattern).least
    except _UnknownPart:
        return 0


def _read(pattern: str) -> _Part:
    if not 0 < len(pattern) <= _MOST_CHARACTERS:
        raise _UnknownPart("its length")
    part, end = _alternatives(pattern, 0, _MOST_LEVELS)
    if end != len(pattern):
        raise _UnknownPart(pattern[end:])
    return part


def _alternatives(text: str, at: int, levels: int) -> tuple[_Part, int]:
    """Read up to the end of a group or of the text."""
    if not levels:
        raise _UnknownPart("its depth")
    found, sequence = list[_Part](), list[_Part]()
    while at < len(text) and text[at] != ")":
        if text[at] == "|":
            found, sequence, at = [*found, _in_row(sequence)], [], at + 1
            continue
        part, at = _repeated(text, at, levels)
        sequence.append(part)
    return _one_of([*found, _in_row(sequence)]), at


def _in_row(parts: Sequence[_Part]) -> _Part:
    """Parts one after the other: going back stops at the last one that can fail."""
    last = max((place for place, part in enumerate(parts) if part.fails), default=0)
    before = math.prod(part.ways for part in parts[:last])
    inside = max((part.work for part in parts), default=1.0)
    ways = math.prod(part.ways for part in parts)
    return _Part(sum(part.least for part in parts), ways, before * inside, any(part.fails for part in parts))


def _one_of(parts: Sequence[_Part]) -> _Part:
    if len(parts) == 1:
        return parts[0]
    ways, work = sum(part.ways for part in parts), sum(part.work for part in parts)
    return _Part(min(part.least for part in parts), ways, work, all(part.fails for part in parts))


def _repeated(text: str, at: int, levels: int) -> tuple[_Part, int]:
    part, at = _single(text, at, levels)
    found = _REPEAT.match(text, at)
    if not found:
        return part, at
    least, most = _counts(found)
    after = found.end()
    if _REPEAT.match(text, after) or text[after : after + 1] == "+":
        raise _UnknownPart("a repetition of a repetition")
    made = _times(part, least, most)
    # What is taken at once and not given back has one way, and its work is that of finding it.
    return (replace(made, ways=1.0, work=max(made.work, made.ways)) if found["manner"] == "+" else made), after


def _counts(found: re.Match[str]) -> tuple[int, float]:
    if found["plain"]:
        return {"?": (0, 1.0), "*": (0, math.inf), "+": (1, math.inf)}[found["plain"]]
    if not (found["least"] or found["most"]):
        raise _UnknownPart(found[0])
    if found["lazy"] and not found["comma"]:
        return 0, float(found["least"])  # Ruby reads {2}? as an optional {2}
    least = int(found["least"] or 0)
    return least, float(found["most"] or math.inf) if found["comma"] else float(least)


def _times(part: _Part, least: int, most: float) -> _Part:
    if least > _MOST_REPEATS or (most != math.inf and most > _MOST_REPEATS) or most < least:
        raise _UnknownPart("a large count")
    if least * part.least > _MOST_CHARACTERS:
        raise _UnknownPart("a large count")
    if most > 1 and (part.ways > 1 or part.least == 0):
        raise _UnknownPart("a repetition of what can match in several ways")
    ways = part.ways + 1 if (least, most) == (0, 1) else min(most, float(_STRETCH)) - min(least, _STRETCH) + 1
    if least == most == 1:
        ways = part.ways
    return _Part(least * part.least, ways, part.work, fails=least > 0 and part.fails)


def _single(text: str, at: int, levels: int) -> tuple[_Part, int]:
    """One character, one class of characters, one place, or a group."""
    if found := _PLACE.match(text, at):
        return _Part(0, 1), found.end()
    if text[at] == "(":
        return _group(text, at, levels)
    if text[at] == "[":
        return _Part(1, 1), _class_end(text, at, levels)
    if text[at] == "\\":
        return _Part(1, 1), _escape_end(text, at)
    if text[at] in "*+?{":
        raise _UnknownPart(text[at:])
    return _Part(1, 1), at + 1


def _group(text: str, at: int, levels: int) -> tuple[_Part, int]:
    found = _OPENING.match(text, at)
    assert found is not None
    if text[found.end() : found.end() + 1] in ("?", "*"):
        raise _UnknownPart(text[at:])
    inner, end = _alternatives(text, found.end(), levels - 1)
    if text[end : end + 1] != ")":
        raise _UnknownPart(text[at:])
    kind = found["kind"] or ""
    if "x" in kind and kind.endswith(":"):
        raise _UnknownPart("its free form")
    if kind in ("=", "!", "<=", "<!"):
        inner = _Part(0, 1, inner.work)
    elif kind == ">":
        inner = replace(inner, ways=1.0, work=max(inner.work, inner.ways))
    return inner, end + 1


def _class_end(text: str, at: int, levels: int) -> int:
    """Where a class of characters ends; classes may hold classes."""
    if not levels:
        raise _UnknownPart("its depth")
    place = at + (2 if text[at + 1 : at + 2] == "^" else 1)
    first = place
    while place < len(text):
        if text[place] == "]" and place > first:
            return place + 1
        if text[place] == "[":
            place = _class_end(text, place, levels - 1)
        elif text[place] == "\\":
            place = _escape_end(text, place)
        else:
            place += 1
    raise _UnknownPart(text[at:])


def _escape_end(text: str, at: int) -> int:
    found = _ESCAPE.match(text, at)
    if not found:
        raise _UnknownPart(text[at:])
    return found.end()
