"""Lark's notation as llguidance has it, as trees: of users' grammars, and of what `runtime_py.messages` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from edgec.exporter.schemas.lark_common import COMMON
from edgec.exporter.schemas.refusals import not_in_notation

_SYMBOL: Final = re.compile(
    r"""(?:[ \t]+|(?:\#|//)[^\n]*)*(?:
    (?P<line>(?:\r?\n)+)
    |(?P<text>"(?:\\.|[^"\\])*"i?)
    |(?P<pattern>/(?:\\.|[^/\\])+/[imslux]*)
    |<\[(?P<token>\d+)\]>
    |@(?P<schema>[\w-]+)
    |(?P<options>%llguidance\ \{(?:"no_forcing":\ true)?\})
    |(?P<order>%\w+)
    |(?P<number>\d+)
    |(?P<name>!?[_?]?[a-z][_a-z0-9-]*|_?[A-Z][_A-Z0-9-]*)
    |(?P<sign>->|\.\.|::|[()\[\]{}|?*+~&:,.=])
    |$)""",
    re.VERBOSE,
)
_HEX: Final = re.compile(r"(\\[^x])|\\x(..)")
_TIMES: Final[Mapping[str, tuple[int, int | None]]] = {"?": (0, 1), "*": (0, None), "+": (1, None)}
PartKind = Literal[
    "text", "pattern", "range", "token", "schema", "rule", "all", "any", "both", "other", "times", "soon"
]
Symbol = tuple[str, str]
_END: Final[Symbol] = ("end", "")
_CLOSING: Final = (_END, *(("sign", sign) for sign in "|)]&"), ("sign", "->"))


@dataclass(frozen=True)
class LarkPart:
    """What may stand at a place.

    Attributes:
        kind: with a ``value``: ``text``, ``pattern`` (a regular expression), ``range`` (its first and last character),
            ``token`` (a special token's id), ``schema`` or ``rule`` (the name of a rule or terminal). With ``parts``:
            ``all``, one after the other; ``any``, one of them; ``both``, all at once; ``other``, everything but its
            part; ``times``, its part from ``low`` to ``high`` times; ``soon``, its part, which ends as soon as it can.
        value, parts: see there.
        flags: of a text or a pattern.
        low, high: of ``times``; None is without end.
    """

    kind: PartKind
    value: str = ""
    parts: tuple[LarkPart, ...] = ()
    flags: str = ""
    low: int = 0
    high: int | None = None


@dataclass(frozen=True)
class LarkGrammar:
    """A grammar.

    Attributes:
        rules: rules and terminals by their names.
        ignored: what may stand between terminals.
    """

    rules: Mapping[str, LarkPart]
    ignored: tuple[LarkPart, ...] = ()


def is_terminal(name: str) -> bool:
    """Whether a name is a terminal's."""
    return name.lstrip("_")[0].isupper()


def lark_grammar(text: str, where: str) -> LarkGrammar:
    """Read a grammar that llguidance takes.

    Raises:
        InputError: E768, it has a part that a bundle's automaton does not enforce.
    """
    return _Reader(text, where).grammar()


def tokens_in(parts: Iterable[LarkPart]) -> Iterator[int]:
    """The special tokens that some parts name."""
    for part in parts:
        if part.kind == "token":
            yield int(part.value)
        yield from tokens_in(part.parts)


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._symbols = list(_symbols(text, where))
        self._place = 0
        self._rules: dict[str, LarkPart] = {}
        self._ignored: list[LarkPart] = []

    def grammar(self) -> LarkGrammar:
        while (symbol := self._pop()) != _END:
            match symbol:
                case ("name", name):
                    self._rule(name.lstrip("!?"))
                case ("order", "%ignore"):
                    self._ignored.append(self._alternatives())
                case ("order", "%import"):
                    self._import()
                case ("line" | "options", _):
                    continue
                case _:
                    raise self._refused(symbol[1])
        return LarkGrammar(self._rules, tuple(self._ignored))

    def _refused(self, found: str) -> Exception:
        return not_in_notation(self._where, f"{found!r} at {''.join(text for _, text in self._around())!r}")

    def _around(self) -> list[Symbol]:
        return self._symbols[max(0, self._place - 3) : self._place + 3]

    def _next(self) -> Symbol:
        return self._symbols[self._place] if self._place < len(self._symbols) else _END

    def _pop(self) -> Symbol:
        self._place += 1
        return self._symbols[self._place - 1] if self._place <= len(self._symbols) else _END

    def _take(self, sign: str) -> bool:
        found = self._next() == ("sign", sign)
        self._place += found
        return found

    def _expect(self, kind: str, value: str = "") -> str:
        found, text = self._pop()
        if found != kind or value not in ("", text):
            raise self._refused(text)
        return text

    def _rule(self, name: str) -> None:
        soon = self._take("[")
        if soon and self._expect("name") != "lazy":
            raise self._refused("an attribute of a rule")
        if soon:
            self._expect("sign", "]")
        self._expect("sign", ":")
        held = self._alternatives()
        self._rules[name] = LarkPart("soon", parts=(held,)) if soon else held

    def _import(self) -> None:
        path = [self._expect("name")]
        while self._take("."):
            path.append(self._expect("name"))
        names = [path.pop()] if len(path) > 1 else []
        if self._take("("):
            names.append(self._expect("name"))
            while self._take(","):
                names.append(self._expect("name"))
            self._expect("sign", ")")
        alias = self._expect("name") if self._take("->") else ""
        for name in names:
            self._rules[alias or name] = LarkPart("pattern", COMMON[name])

    def _alternatives(self) -> LarkPart:
        parts = [self._alternative()]
        while self._bar():
            parts.append(self._alternative())
        return parts[0] if len(parts) == 1 else LarkPart("any", parts=tuple(parts))

    def _bar(self) -> bool:
        """Take a bar, which may stand on the next line."""
        after = self._symbols[self._place + 1 : self._place + 2]
        self._place += self._next()[0] == "line" and after == [("sign", "|")]
        return self._take("|")

    def _alternative(self) -> LarkPart:
        parts = [self._sequence()]
        while self._take("&"):
            parts.append(self._sequence())
        if self._take("->"):
            self._expect("name")
        return parts[0] if len(parts) == 1 else LarkPart("both", parts=tuple(parts))

    def _sequence(self) -> LarkPart:
        parts = []
        while self._next() not in _CLOSING and self._next()[0] != "line":
            parts.append(self._repeated())
        return parts[0] if len(parts) == 1 else LarkPart("all", parts=tuple(parts))

    def _repeated(self) -> LarkPart:
        part = self._single()
        for sign, (low, high) in _TIMES.items():
            if self._take(sign):
                return LarkPart("times", parts=(part,), low=low, high=high)
        if self._take("{"):
            return self._braced(part)
        if self._next() == ("sign", "~") and self._symbols[self._place + 1][0] == "number":
            self._place += 1
            first = int(self._pop()[1])
            return LarkPart("times", "", (part,), "", first, int(self._expect("number")) if self._take("..") else first)
        return part

    def _braced(self, part: LarkPart) -> LarkPart:
        low = self._number()
        high = self._number() if self._take(",") else low
        self._expect("sign", "}")
        return LarkPart("times", parts=(part,), low=low or 0, high=high)

    def _number(self) -> int | None:
        return int(self._pop()[1]) if self._next()[0] == "number" else None

    def _single(self) -> LarkPart:
        if self._take("~"):
            return LarkPart("other", parts=(self._single(),))
        match self._pop():
            case ("text", quoted):
                return self._text(quoted)
            case ("pattern", given):
                inner, _, flags = given[1:].rpartition("/")
                return LarkPart("pattern", inner, flags=flags)
            case ("token" | "schema" as kind, value):
                return LarkPart(kind, value)
            case ("name", name):
                return LarkPart("rule", name)
            case ("sign", "(" | "[" as sign):
                held = self._alternatives()
                self._expect("sign", ")" if sign == "(" else "]")
                return held if sign == "(" else LarkPart("times", parts=(held,), high=1)
            case (_, found):
                raise self._refused(found)

    def _text(self, quoted: str) -> LarkPart:
        text = _unquoted(quoted.removesuffix("i"))
        if self._take(".."):
            return LarkPart("range", text + _unquoted(self._expect("text")))
        return LarkPart("text", text, flags="i" if quoted.endswith("i") else "")


def _unquoted(quoted: str) -> str:
    r"""The text of a string of JSON that may also have `\x41`."""
    return str(json.loads(_HEX.sub(lambda found: found[1] or rf"\u00{found[2]}", quoted)))


def _symbols(text: str, where: str) -> Iterator[Symbol]:
    place, end = 0, len(text.rstrip())
    while place < end:
        matched = _SYMBOL.match(text, place)
        if matched is None:
            raise not_in_notation(where, repr(text[place : place + 40].strip()))
        if matched.lastgroup is not None:
            yield matched.lastgroup, matched[matched.lastgroup]
        place = matched.end()
