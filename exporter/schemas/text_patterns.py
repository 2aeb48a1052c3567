"""A regular expression of a schema as a term over the bytes of JSON strings.

Python's own parser of regular expressions reads it. What both Python and the engine of `edgec run` understand the same
way is compiled; anything else is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from edgec.exporter.schemas.characters import ANY_CHARACTER, CharacterRanges, encoded, spelled, without
from edgec.exporter.schemas.refusals import not_compiled
from edgec.exporter.schemas.regular import Regular, RegularPool

_parser: Any = vars(re)["_parser"]
_DIGITS: Final = ((0x30, 0x39),)
_WORDS: Final = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACES: Final = tuple(
    (code, code)
    for code in (
        *range(9, 14),
        0x20,
        0x85,
        0xA0,
        0x1680,
        *range(0x2000, 0x200B),
        0x2028,
        0x2029,
        0x202F,
        0x205F,
        0x3000,
    )
)
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": _DIGITS,
    "CATEGORY_WORD": _WORDS,
    "CATEGORY_SPACE": _SPACES,
    "CATEGORY_NOT_DIGIT": without(_DIGITS),
    "CATEGORY_NOT_WORD": without(_WORDS),
    "CATEGORY_NOT_SPACE": without(_SPACES),
}
# An escape, a set with its inside, or another letter.
_SET: Final = re.compile(r"\\.|\[\^?\]?((?:\\.|[^\]\\])*)\]|[^\\]", re.DOTALL)
_NEW_LINE: Final = ((10, 10),)
# The signs for kelvin and a long s, which Unicode folds to letters of ASCII.
_FOLDED: Final = {ord(letter): code for letters, code in (("kK", 0x212A), ("sS", 0x17F)) for letter in letters}
Item = tuple[Any, Any]
Spelling = Callable[[RegularPool, Iterable[tuple[int, int]]], Regular]


def pattern_term(pool: RegularPool, pattern: str, where: str) -> Regular:
    """The texts in which a pattern is found, as JSON strings spell them, without the quotes.

    Raises:
        InputError: E710, the pattern has something that only an engine of `edgec run` understands.
    """
    return _Pattern(pool, where, spelled).found(pattern)


def whole_term(pool: RegularPool, pattern: str, where: str, flags: str = "") -> Regular:
    r"""The texts that a pattern matches as a whole, in UTF-8; raises as `pattern_term`.

    `\d` and `\w` are ASCII in schemas and all of Unicode's in the engine's own expressions: refused here.

    Args:
        pool: makes the term.
        pattern: the regular expression.
        where: named in errors.
        flags: ``i``, letters are capital or small; ``s``, a dot is also a line's end.
    """
    if unknown := set(flags) - {"i", "s"}:
        raise not_compiled("pattern", where, f"the flag {min(unknown)}")
    categories = {name: ranges for name, ranges in _CATEGORIES.items() if "SPACE" in name}
    made = _Pattern(pool, where, encoded, categories, flags)
    return pool.either(*(made.sequence(branch) for branch in made.branches(pattern)))


def folded(ranges: CharacterRanges, where: str) -> CharacterRanges:
    """Characters with those that differ from them only in being capital or small, as Unicode folds them."""
    if any(high > 0x7F for _, high in ranges):
        raise not_compiled("pattern", where, "the flag i with letters that are not ASCII")
    codes = {code for low, high in ranges for code in range(low, high + 1)}
    letters = {ord(chr(code).swapcase()) for code in codes if chr(code).isalpha()}
    return (*ranges, *((code, code) for code in letters), *((_FOLDED[code],) * 2 for code in _FOLDED.keys() & letters))


class _Pattern:
    def __init__(
        self,
        pool: RegularPool,
        where: str,
        spell: Spelling,
        categories: Mapping[str, CharacterRanges] = _CATEGORIES,
        flags: str = "",
    ) -> None:
        self._pool, self._where, self._spell = pool, where, spell
        self._categories, self._flags = categories, flags

    def found(self, pattern: str) -> Regular:
        return self._pool.either(*(self._anchored(branch) for branch in self.branches(pattern)))

    def branches(self, pattern: str) -> Sequence[list[Item]]:
        try:
            parsed = _parsed(pattern)
        except (re.error, RecursionError, OverflowError, FutureWarning) as error:
            raise not_compiled("pattern", self._where, str(error)) from error
        if parsed.state.flags != re.UNICODE.value:
            raise not_compiled("pattern", self._where, "it sets flags")
        items: list[Item] = list(parsed)
        if items and str(items[-1][0]) == "BRANCH":
            return [[*items[:-1], *branch] for branch in items[-1][1][1]]
        return [items]

    def _anchored(self, items: list[Item]) -> Regular:
        anything = self._pool.repeat(self._spell(self._pool, ANY_CHARACTER))
        begins = bool(items) and _is_anchor(items[0], "AT_BEGINNING", "AT_BEGINNING_STRING")
        rest = items[1:] if begins else items
        ends = bool(rest) and _is_anchor(rest[-1], "AT_END", "AT_END_STRING")
        inner = self.sequence(rest[:-1] if ends else rest)
        return self._pool.then(*([] if begins else [anything]), inner, *([] if ends else [anything]))

    def sequence(self, items: Sequence[Item]) -> Regular:
        return self._pool.then(*(self._item(str(kind), value) for kind, value in items))

    def _item(self, kind: str, value: Any) -> Regular:
        if kind in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._spell(self._pool, self._characters(kind, value))
        if kind == "BRANCH":
            return self._pool.either(*(self.sequence(list(branch)) for branch in value[1]))
        if kind == "SUBPATTERN" and not value[1] and not value[2]:
            return self.sequence(list(value[3]))
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, part = value
            endless = high is _parser.MAXREPEAT
            return self._pool.repeat(self.sequence(list(part)), int(low), None if endless else int(high))
        raise not_compiled("pattern", self._where, f"{kind.lower()} inside it")

    def _characters(self, kind: str, value: Any) -> CharacterRanges:
        if kind == "ANY":
            return ANY_CHARACTER if "s" in self._flags else without(_NEW_LINE)
        if kind in ("LITERAL", "RANGE"):
            low, high = value if kind == "RANGE" else (value, value)
            named = ((int(low), int(high)),)
            return folded(named, self._where) if "i" in self._flags else named
        if kind == "NOT_LITERAL":
            return without(self._characters("LITERAL", value))
        if kind == "CATEGORY" and str(value) in self._categories:
            return self._categories[str(value)]
        if kind != "IN":
            raise not_compiled("pattern", self._where, f"{kind.lower()} inside it")
        negated = bool(value) and str(value[0][0]) == "NEGATE"
        ranges = tuple(one for part in value[negated:] for one in self._characters(str(part[0]), part[1]))
        return without(ranges) if negated else ranges


def _parsed(pattern: str) -> Any:
    """Refuse sets within sets, which Python reads as letters, mostly with a warning, and the engine does not."""
    if any("[" in re.sub(r"\\.", "", found[1] or "") for found in _SET.finditer(pattern)):
        raise re.error("a set within a set")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        return _parser.parse(pattern)


def _is_anchor(item: Item, *names: str) -> bool:
    return str(item[0]) == "AT" and str(item[1]) in names
