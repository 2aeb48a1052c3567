"""Random grammars in Lark's notation, small and rarely sensible: terminals that hold each other, recursion, blanks."""

from __future__ import annotations

import random
from typing import Final

_TERMINALS: Final = (
    *('"a"', '"b"', '"ab"', '"aab"', '"("', '")"', '","', '"if"', '"."', '"+"', '" "'),
    *("/[a-c]+/", "/[a-b]*c/", "/a+/", "/[0-9]+/", r"/[0-9]+(\.[0-9]+)?/", "/b?/", "/(ab)+/", "/a|ab|b+/"),
)
_TIMES: Final = ("", "?", "*", "+", "{1,2}", "{2}")
_IGNORED: Final = ("/[ ]+/", "/ */", '" "', r"/[ ]+|#[^\n]*\n/", "/[ ]{1,2}/")
_DEEPEST: Final = 3


def random_grammar(chance: random.Random) -> str:
    """One of at most four rules."""
    rules = [f"r{number}" for number in range(chance.choice((0, 1, 2, 2, 3)))]
    lines = [f"{name}: {_alternatives(chance, rules or ['start'])}" for name in ("start", *rules)]
    ignored = [f"%ignore {chance.choice(_IGNORED)}"] if chance.random() < 0.4 else []
    return "\n".join(lines + ignored)


def _alternatives(chance: random.Random, rules: list[str], depth: int = 0) -> str:
    return " | ".join(_part(chance, rules, depth) for _ in range(chance.choice((1, 1, 2, 2, 3))))


def _part(chance: random.Random, rules: list[str], depth: int) -> str:
    drawn = chance.random()
    if depth > _DEEPEST or drawn < 0.45:
        return chance.choice(_TERMINALS)
    if drawn < 0.62:
        return chance.choice(rules)
    if drawn < 0.72:
        return f"({_alternatives(chance, rules, depth + 1)}){chance.choice(_TIMES)}"
    if drawn < 0.76:
        return f"[{_alternatives(chance, rules, depth + 1)}]"
    return f"{_part(chance, rules, depth + 1)} {_part(chance, rules, depth + 1)}"
