"""The grammar of a message that may call tools as a pushdown automaton over bytes, as `compiled` has it for a schema.

A special token is one byte that no text in UTF-8 has; the vocabulary that belongs to the automaton writes it so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from edgec.exporter.schemas.compiled import MOST_STATES, compile_schema
from edgec.exporter.schemas.lark import LarkPart, lark_grammar
from edgec.exporter.schemas.lark_terms import combined_term, leaf_term
from edgec.exporter.schemas.pushdown import Pushdown, PushdownState
from edgec.exporter.schemas.refusals import too_large_automaton
from edgec.exporter.schemas.regular import EVERY_BYTE, Regular, RegularPool, TooManyStates
from edgec.runtime_py.structured.wanted import Wanted

UNUSED_BYTES: Final = (0xC0, 0xC1, *range(0xF5, 0x100))
"""Bytes that UTF-8 never has."""
_OPTIONS: Final = "x-guidance"


def compile_message(wanted: Wanted, symbols: Mapping[int, int]) -> Pushdown:
    """Compile a grammar that `message_grammar` made.

    Args:
        wanted: the grammar.
        symbols: the byte that stands for each special token, by its id.

    Raises:
        InputError: E710, a tool's schema has a keyword that this automaton does not enforce; E711, it exceeds a limit.
    """
    _, *schemas = json.loads(wanted.grammar)["grammars"]
    held = {each["name"]: each["json_schema"] for each in schemas}
    try:
        return _Message(lark_grammar(wanted.lark, "tools").rules, held, symbols).whole()
    except (TooManyStates, RecursionError) as error:
        why = f"the automaton of its messages has more than {MOST_STATES:,} states"
        raise too_large_automaton("tools", why) from error


class _Message:
    def __init__(self, rules: Mapping[str, LarkPart], schemas: Mapping[str, Any], symbols: Mapping[int, int]) -> None:
        self._rules, self._schemas, self._symbols = rules, schemas, symbols
        self._pool, self._machine = RegularPool(), Pushdown()
        self._start, self._end = self._machine.add(), self._machine.add(final=True)
        self._terms: dict[LarkPart, Regular | None] = {}
        self._starts: dict[object, int] = {}

    def whole(self) -> Pushdown:
        self._call(self._start, self._state(LarkPart("rule", "start")), self._end)
        return self._machine.trimmed()

    def _call(self, state: int, callee: int, then: int) -> None:
        self._machine.states[state].calls.append((callee, then))

    def _term(self, part: LarkPart) -> Regular | None:
        """A part as a regular term; None where it holds a schema's values."""
        if part not in self._terms:
            self._terms[part] = self._made_term(part)
        return self._terms[part]

    def _made_term(self, part: LarkPart) -> Regular | None:
        if not part.parts:
            return self._leaf(part)
        terms = [self._term(each) for each in part.parts]
        found = [term for term in terms if term is not None]
        return self._combined(part, found) if len(found) == len(terms) else None

    def _leaf(self, part: LarkPart) -> Regular | None:
        match part.kind:
            case "schema":
                return None
            case "rule":
                return self._term(self._rules[part.value])
            case "token":
                return self._pool.one_of(1 << self._symbols[int(part.value)])
        return leaf_term(self._pool, part, "tools")

    def _combined(self, part: LarkPart, terms: Sequence[Regular]) -> Regular:
        if part.kind != "soon":
            return combined_term(self._pool, part, terms)
        return self._without(terms[0], self._begun(terms[0], self._pool.one_of(EVERY_BYTE)))

    def _begun(self, term: Regular, *more: Regular) -> Regular:
        """What begins with a text of the term."""
        return self._pool.then(term, *more, self._pool.everything)

    def _without(self, term: Regular, other: Regular) -> Regular:
        return self._pool.both(term, self._pool.other(other))

    def _state(self, part: LarkPart) -> int:
        """The state at which a part begins."""
        term = self._term(part)
        key: object = part if term is None else term
        if key not in self._starts:
            self._starts[key] = self._made(part) if term is None else self._lexeme(term)
        return self._starts[key]

    def _lexeme(self, term: Regular) -> int:
        return self._machine.embed(self._pool.automaton(term, MOST_STATES - len(self._machine.states)))

    def _made(self, part: LarkPart) -> int:
        match part.kind:
            case "rule":
                return self._state(self._rules[part.value])
            case "schema":
                return self._values(self._schemas[part.value])
            case "all":
                return self._chain(part.parts)
            case "any":
                return self._choice(part.parts)
        assert part.kind == "times" and part.low == 0, part
        state = self._machine.add(final=True)
        self._call(state, self._state(part.parts[0]), self._end if part.high == 1 else state)
        return state

    def _values(self, schema: Any) -> int:
        """The state at which a value of a schema begins."""
        plain = {key: value for key, value in schema.items() if key != _OPTIONS}
        first = len(self._machine.states)
        for state in compile_schema(plain).states:
            edges = [(low, high, first + target) for low, high, target in state.edges]
            calls = [(first + callee, first + then) for callee, then in state.calls]
            self._machine.states.append(PushdownState(state.final, edges, calls))
        return first

    def _chain(self, parts: Sequence[LarkPart]) -> int:
        """One part after the other; neighbours that are regular become one automaton."""
        starts = []
        for regular, run in groupby(parts, lambda part: self._term(part) is not None):
            same = tuple(run)
            starts += [self._state(LarkPart("all", parts=same))] if regular else [self._state(each) for each in same]
        first = state = self._machine.add()
        for start in starts[:-1]:
            then = self._machine.add()
            self._call(state, start, then)
            state = then
        self._call(state, starts[-1], self._end)
        return first

    def _choice(self, parts: Sequence[LarkPart]) -> int:
        """One of some parts; one that ends as soon as it can is not written by the others."""
        state = self._machine.add()
        soon = [term for term in map(self._first_soon, parts) if term is not None]
        for part in parts:
            term = self._term(part)
            if term is None or not soon:
                self._call(state, self._state(part), self._end)
            else:
                rest = self._without(term, self._begun(self._pool.either(*soon)))
                self._call(state, self._lexeme(rest), self._end)
        return state

    def _first_soon(self, part: LarkPart) -> Regular | None:
        """The term of what a part may begin with and that ends as soon as it can."""
        if part.kind == "rule":
            return self._first_soon(self._rules[part.value])
        if part.kind == "soon":
            return self._term(part)
        if part.kind != "all":
            return None
        return self._first_soon(next(each for each in part.parts if each.kind != "times" or each.high != 1))
