"""The part of Lark's notation in which `edgec.runtime_py.messages` writes the grammars of messages, as a tree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

_SYMBOL: Final = re.compile(
    r'\s*(?:(?P<text>"(?:\\.|[^"\\])*")|/(?P<pattern>(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[])+)/'
    r"|<\[(?P<token>\d+)\]>|@(?P<schema>\w+)|(?P<name>\w+)|(?P<sign>[()|?*]))"
)
_RULE: Final = re.compile(r"(\w+)(\[lazy\])?: (.*)")


@dataclass(frozen=True)
class LarkPart:
    """What may stand at a place.

    Attributes:
        kind: ``text``, ``pattern`` (a regular expression), ``token`` (a special token's id), ``schema`` (a name) or
            ``rule`` (a name), with a ``value``; ``all``, one part after the other; ``any``, one of them; ``maybe``, its
            part or nothing; ``many``, its part as often as wanted; ``soon``, its part, which ends as soon as it can.
        value: see there.
        parts: see there.
    """

    kind: Literal["text", "pattern", "token", "schema", "rule", "all", "any", "maybe", "many", "soon"]
    value: str = ""
    parts: tuple[LarkPart, ...] = ()


def lark_rules(text: str) -> Mapping[str, LarkPart]:
    """The rules of a grammar by their names; its first line, with options, is left out."""
    rules = {}
    for line in text.splitlines()[1:]:
        matched = _RULE.fullmatch(line)
        assert matched is not None, line
        name, lazy, body = matched.groups()
        held = _Parser(body).alternatives()
        rules[name] = LarkPart("soon", parts=(held,)) if lazy else held
    return rules


def tokens_in(parts: Iterable[LarkPart]) -> Iterator[int]:
    """The special tokens that some parts name."""
    for part in parts:
        if part.kind == "token":
            yield int(part.value)
        yield from tokens_in(part.parts)


class _Parser:
    def __init__(self, text: str) -> None:
        self._symbols = list(_symbols(text))
        self._place = 0

    def _next(self) -> tuple[str, str]:
        return self._symbols[self._place] if self._place < len(self._symbols) else ("end", "")

    def _take(self, sign: str) -> bool:
        found = self._next() == ("sign", sign)
        self._place += found
        return found

    def alternatives(self) -> LarkPart:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else LarkPart("any", parts=tuple(parts))

    def _sequence(self) -> LarkPart:
        parts = []
        while self._next() not in (("end", ""), ("sign", "|"), ("sign", ")")):
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else LarkPart("all", parts=tuple(parts))

    def _repeated(self) -> LarkPart:
        part = self._single()
        if self._take("?"):
            return LarkPart("maybe", parts=(part,))
        return LarkPart("many", parts=(part,)) if self._take("*") else part

    def _single(self) -> LarkPart:
        kind, value = self._next()
        self._place += 1
        match kind:
            case "text":
                return LarkPart("text", json.loads(value))
            case "pattern" | "token" | "schema":
                return LarkPart(kind, value)
            case "name":
                return LarkPart("rule", value)
        assert (kind, value) == ("sign", "("), (kind, value)
        inner = self.alternatives()
        assert self._take(")")
        return inner


def _symbols(text: str) -> Iterator[tuple[str, str]]:
    place, end = 0, len(text.rstrip())
    while place < end:
        matched = _SYMBOL.match(text, place)
        assert matched is not None and matched.lastgroup is not None, text[place:]
        yield matched.lastgroup, matched[matched.lastgroup]
        place = matched.end()
