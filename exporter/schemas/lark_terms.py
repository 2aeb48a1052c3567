"""Parts of Lark's notation as regular terms over bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgec.exporter.schemas.characters import encoded
from edgec.exporter.schemas.lark import LarkPart
from edgec.exporter.schemas.regular import EVERY_BYTE, Regular, RegularPool
from edgec.exporter.schemas.text_patterns import folded, whole_term


def leaf_term(pool: RegularPool, part: LarkPart, where: str) -> Regular:
    """A text, a range or a pattern.

    Raises:
        InputError: E710, a pattern that this automaton does not enforce.
    """
    if part.kind == "pattern":
        return whole_term(pool, part.value, where, part.flags)
    if part.kind == "range":
        low, high = map(ord, part.value)
        return encoded(pool, [(low, high)])
    assert part.kind == "text", part
    if not part.flags:
        return pool.text(part.value.encode())
    return pool.then(*(encoded(pool, folded(((ord(char), ord(char)),), where)) for char in part.value))


def combined_term(pool: RegularPool, part: LarkPart, terms: Sequence[Regular]) -> Regular:
    """The term of a part by those of its parts."""
    match part.kind:
        case "all":
            return pool.then(*terms)
        case "any":
            return pool.either(*terms)
        case "both":
            return pool.both(*terms)
        case "other":
            return pool.other(terms[0])
    assert part.kind == "times", part
    return pool.repeat(terms[0], part.low, part.high)


class Terminals:
    """The terms of a grammar's terminals."""

    def __init__(self, pool: RegularPool, rules: Mapping[str, LarkPart], where: str) -> None:
        """Make terms of some named parts, which do not refer to themselves."""
        self._pool, self._rules, self._where = pool, rules, where
        self._known: dict[LarkPart, Regular] = {}

    def term(self, part: LarkPart) -> Regular:
        """The term of a part; raises as `leaf_term`."""
        if part not in self._known:
            self._known[part] = self._made(part)
        return self._known[part]

    def _made(self, part: LarkPart) -> Regular:
        if part.kind == "rule":
            return self.term(self._rules[part.value])
        if not part.parts:
            return leaf_term(self._pool, part, self._where)
        made = combined_term(self._pool, part, [self.term(each) for each in part.parts])
        # The library has other bytes that UTF-8 never has, but marks special tokens by the last one.
        written = self._pool.repeat(self._pool.one_of(EVERY_BYTE >> 1))
        return self._pool.both(made, written) if part.kind == "other" else made
