"""Lists and objects as states that call the states of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from edgec.exporter.schemas.characters import ANY_CHARACTER, spelled, spelled_text
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.exporter.schemas.refusals import not_compiled, too_large_automaton
from edgec.exporter.schemas.regular import Regular, RegularPool
from edgec.exporter.schemas.text_patterns import pattern_term

_MOST_CALLS: Final = 1 << 20


@dataclass(frozen=True)
class _Property:
    """A property that a schema names."""

    name: str
    schema: Any
    required: bool


@dataclass(frozen=True)
class _Members:
    """What an object may hold: named properties in order, then free ones by the term of their names."""

    named: tuple[_Property, ...]
    free: tuple[tuple[Regular, Any], ...]
    low: int
    high: int | None


class Containers:
    """Builds lists and objects into one automaton."""

    def __init__(
        self, pool: RegularPool, machine: Pushdown, value: Callable[[Any], int], lexeme: Callable[[Regular], int]
    ) -> None:
        """Build with functions that give the state of a schema's values and of a term."""
        self._pool, self._machine, self._value, self._lexeme = pool, machine, value, lexeme
        self._any_text = pool.repeat(spelled(pool, ANY_CHARACTER))
        self._space = pool.either(
            pool.empty,
            pool.text(b" "),
            pool.then(pool.text(b"\n"), pool.repeat(pool.text(b" "), 0, 16)),
            pool.then(pool.text(b"\n"), pool.repeat(pool.text(b"\t"), 0, 8)),
        )
        self._comma = pool.then(self._space, pool.text(b","), self._space)
        self._colon = pool.then(self._space, pool.text(b":"), self._space)

    def _call(self, state: int, callee: int, then: int) -> None:
        self._machine.states[state].calls.append((callee, then))

    def _begin(self, bracket: bytes, inside: int) -> int:
        start = self._machine.add()
        self._call(start, self._lexeme(self._pool.then(self._pool.text(bracket), self._space)), inside)
        return start

    def _close(self, state: int, bracket: bytes, held: int, end: int) -> None:
        """Space is read before the bracket only where a value stands before it."""
        text = self._pool.text(bracket)
        self._call(state, self._lexeme(self._pool.then(self._space, text) if held else text), end)

    def list_of(self, node: dict[str, Any]) -> int:
        """The state at which a list begins."""
        prefix, low, high = node.get("prefixItems", []), node.get("minItems", 0), node.get("maxItems")
        last = max(low, len(prefix), 1) if high is None else high
        end = self._machine.add(final=True)
        states = [self._machine.add() for _ in range(last + 1)]
        comma = self._lexeme(self._comma)
        for held, state in enumerate(states):
            if held >= low:
                self._close(state, b"]", held, end)
            item = prefix[held] if held < len(prefix) else node.get("items", True)
            if item is False or (high is not None and held >= high):
                continue
            before = state
            if held:
                before = self._machine.add()
                self._call(state, comma, before)
            self._call(before, self._value(item), states[min(held + 1, last)])
        return self._begin(b"[", states[0])

    def object_of(self, node: dict[str, Any]) -> int:
        """The state at which an object begins."""
        members = self._members(node)
        end, calls = self._machine.add(final=True), 0
        inside = self._machine.add()
        states, pending = {(0, 0): inside}, [(0, 0)]
        values: dict[tuple[str, int, int], int] = {}

        def state_of(place: int, held: int) -> int:
            key = (place, min(held, 1 if members.high is None else members.high))
            if key not in states:
                states[key] = self._machine.add()
                pending.append(key)
            return states[key]

        while pending:
            place, held = pending.pop()
            state, needed = states[place, held], False
            for name, schema, then in self._next(members, place, held):
                calls += 1
                if calls > _MOST_CALLS:
                    raise too_large_automaton("schema", "an object has too many optional properties")
                following = state_of(then, held + 1)
                key = (repr(schema), then, following)
                if key not in values:
                    values[key] = self._machine.add()
                    self._call(values[key], self._value(schema), following)
                self._call(state, self._lexeme(self._key(name, held)), values[key])
            needed = any(one.required for one in members.named[place:])
            if not needed and held >= members.low:
                self._close(state, b"}", held, end)
        return self._begin(b"{", inside)

    def _next(self, members: _Members, place: int, held: int) -> Iterable[tuple[Regular, Any, int]]:
        """Names that may come next, each with its schema and the place after it."""
        if members.high is not None and held >= members.high:
            return
        for index, one in enumerate(members.named[place:], place):
            text = spelled_text(one.name)
            if text is not None and one.schema is not False:
                yield self._pool.text(text), one.schema, index + 1
            if one.required:
                return
        for term, schema in members.free:
            yield term, schema, len(members.named)

    def _key(self, name: Regular, held: int) -> Regular:
        quote, comma = self._pool.text(b'"'), [self._comma] if held else []
        return self._pool.then(*comma, quote, name, quote, self._colon)

    def _members(self, node: dict[str, Any]) -> _Members:
        declared, patterns = node.get("properties", {}), node.get("patternProperties", {})
        required, other = node.get("required", []), node.get("additionalProperties", True)
        terms = {pattern: pattern_term(self._pool, pattern, "patternProperties") for pattern in patterns}
        named = []
        for name in dict.fromkeys([*declared, *required]):
            met = [patterns[pattern] for pattern in patterns if re.search(pattern, name)]
            own = [declared[name]] if name in declared else []
            parts = [*own, *met] or [other]
            named.append(_Property(name, parts[0] if len(parts) == 1 else {"allOf": parts}, name in required))
        taken = [text for one in named if (text := spelled_text(one.name)) is not None]
        apart = self._pool.both(self._any_text, self._pool.other(self._pool.either(*map(self._pool.text, taken))))
        free = [(self._pool.both(apart, terms[pattern]), schema) for pattern, schema in patterns.items()]
        rest = self._pool.both(apart, self._pool.other(self._pool.either(*terms.values())))
        kept = tuple((term, schema) for term, schema in (*free, (rest, other)) if schema is not False)
        low, high = node.get("minProperties", 0), node.get("maxProperties")
        if low > 1:
            raise not_compiled("minProperties", "schema", "more than one free property cannot be counted by name")
        return _Members(tuple(named), kept, low, high)
