"""The rules of a grammar as regular terms over symbols, which are the grammar's terminals and its rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from edgec.exporter.schemas.lark import LarkGrammar, LarkPart, is_terminal
from edgec.exporter.schemas.lark_terms import Terminals, combined_term
from edgec.exporter.schemas.left_recursion import without_left_recursion
from edgec.exporter.schemas.refusals import not_in_notation
from edgec.exporter.schemas.regular import Regular, RegularPool

START: Final = "start"
_IGNORED: Final = "%ignore"
_REFUSED: Final = {"soon": "the attribute lazy of a rule", "token": "special tokens", "schema": "other grammars"}
_LONGEST_NAME: Final = 40


@dataclass(frozen=True)
class RuleTerms:
    """What the rules of a grammar are made of. No rule holds the empty text, and none begins with itself.

    Attributes:
        symbols: makes the terms of rules.
        texts: makes the terms of terminals.
        terminals: the texts of each symbol that is a terminal, none of them empty.
        bodies: the term of each symbol that is a rule.
        names: what symbols are called in errors.
        start: the symbol of the first rule.
        ignored: the symbol of what may stand between terminals, or None.
        optional: the symbols of terminals that had the empty text as well; rules may lack them instead.
        empty: whether the empty text is one of the grammar.
    """

    symbols: RegularPool
    texts: RegularPool
    terminals: Mapping[int, Regular]
    bodies: Mapping[int, Regular]
    names: Mapping[int, str]
    start: int
    ignored: int | None
    optional: frozenset[int]
    empty: bool


def rule_terms(grammar: LarkGrammar, where: str) -> RuleTerms:
    """The terms of a grammar's rules.

    Raises:
        InputError: E710, a pattern that this automaton does not enforce; E768, an attribute of a rule likewise.
    """
    return _Rules(grammar, where).made()


class _Rules:
    def __init__(self, grammar: LarkGrammar, where: str) -> None:
        self._grammar, self._where = grammar, where
        self._pool, self._texts = RegularPool(_count(grammar.rules.values()) + 2), RegularPool()
        self._terminals = Terminals(self._texts, grammar.rules, where)
        self._known: dict[Regular | str, int] = {}
        self._names: dict[int, str] = {}
        self._lexemes: dict[int, Regular] = {}
        self._nullable, self._optional = set[str](), set[int]()

    def made(self) -> RuleTerms:
        found = self._bodies()
        while more := {name for name, body in found.items() if body.nullable} - self._nullable:
            self._nullable |= more
            found = self._bodies()
        bodies = {self._rule(name): self._filled(self._pool, body) for name, body in found.items()}
        ignored = [self._terminals.term(part) for part in self._grammar.ignored]
        skip = self._symbol(_IGNORED, "what %ignore names") if ignored else None
        if skip is not None:
            self._lexemes[skip] = self._filled(self._texts, self._texts.either(*ignored))
        without = without_left_recursion(self._pool, bodies)
        parts = (self._pool, self._texts, self._lexemes, without, self._names)
        return RuleTerms(*parts, self._rule(START), skip, frozenset(self._optional), START in self._nullable)

    def _bodies(self) -> dict[str, Regular]:
        """The term of each rule that is in reach of the first."""
        found, pending = dict[str, Regular](), [START]
        while pending:
            name = pending.pop()
            if name not in found:
                found[name] = self._term(self._grammar.rules[name])
                pending += _rules_in(self._grammar.rules[name])
        return found

    def _term(self, part: LarkPart) -> Regular:
        if part.kind == "rule" and not is_terminal(part.value):
            return self._lacking(self._pool.one_of(1 << self._rule(part.value)), part.value in self._nullable)
        if part.kind in ("all", "any", "times"):
            return combined_term(self._pool, part, [self._term(each) for each in part.parts])
        if part.kind in _REFUSED:
            raise not_in_notation(self._where, _REFUSED[part.kind])
        term = self._terminals.term(part)
        if term is self._texts.empty:
            return self._pool.empty
        symbol = self._lexeme(self._filled(self._texts, term), _name(part))
        self._optional |= {symbol} if term.nullable else set()
        return self._lacking(self._pool.one_of(1 << symbol), term.nullable)

    def _lacking(self, term: Regular, may_lack: bool) -> Regular:
        return self._pool.either(self._pool.empty, term) if may_lack else term

    def _filled(self, pool: RegularPool, term: Regular) -> Regular:
        """The texts of a term but the empty one."""
        return pool.both(term, pool.other(pool.empty)) if term.nullable else term

    def _rule(self, name: str) -> int:
        return self._symbol(name, f"the rule {name}")

    def _lexeme(self, term: Regular, name: str) -> int:
        symbol = self._symbol(term, name)
        self._lexemes[symbol] = term
        return symbol

    def _symbol(self, key: Regular | str, name: str) -> int:
        symbol = self._known.setdefault(key, len(self._known))
        self._names.setdefault(symbol, name)
        return symbol


def _name(part: LarkPart) -> str:
    if part.kind == "rule":
        return f"the terminal {part.value}"
    return f"the {part.kind} {part.value!r}"[:_LONGEST_NAME] if part.value else "a terminal without a name"


def _count(parts: Iterable[LarkPart]) -> int:
    return sum(1 + _count(part.parts) for part in parts)


def _rules_in(part: LarkPart) -> list[str]:
    own = [part.value] if part.kind == "rule" and not is_terminal(part.value) else []
    return own + [name for each in part.parts for name in _rules_in(each)]
