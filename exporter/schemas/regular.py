"""Regular languages over bytes as terms, and their automata by derivatives (Brzozowski 1964).

The derivative of a language after a byte is what may follow that byte. Terms are shared: two that are written alike are
one object, so that an automaton's states are found by identity. Both intersection and complement are terms, which
lets a pattern meet a length, and a name exclude others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

EVERY_BYTE: Final = (1 << 256) - 1
_ENDLESS: Final = -1


@dataclass(frozen=True, eq=False)
class Regular:
    """A term; make them with a `RegularPool` only.

    Attributes:
        kind: ``bytes``, ``then``, ``either``, ``both``, ``other`` (complement) or ``repeat``.
        parts: the terms that it is made of.
        nullable: whether it holds the empty text.
        bytes: of ``bytes``: a bit for each byte.
        low, high: of ``repeat``: how often; -1 is without end.
    """

    kind: str
    parts: tuple[Regular, ...]
    nullable: bool
    bytes: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class RegularState:
    """A state of an automaton.

    Attributes:
        final: whether the text may end.
        edges: (first byte, last byte, next state), in order and apart.
    """

    final: bool
    edges: tuple[tuple[int, int, int], ...]


class TooManyStates(Exception):
    """An automaton has more states than were allowed."""


class RegularPool:
    """Makes terms, each once."""

    def __init__(self, symbols: int = 256) -> None:
        """Make terms over bytes, or over another number of symbols."""
        self._every = (1 << symbols) - 1
        self._known: dict[tuple[object, ...], Regular] = {}
        self._derived: dict[tuple[Regular, int], Regular] = {}
        self._split: dict[Regular, tuple[int, ...]] = {}
        self.nothing = self.one_of(0)
        self.everything = self.other(self.nothing)
        self.empty = self.repeat(self.nothing, 0, 0)

    def _make(self, kind: str, parts: tuple[Regular, ...], nullable: bool, *numbers: int) -> Regular:
        key = (kind, tuple(map(id, parts)), *numbers)
        if key not in self._known:
            self._known[key] = Regular(kind, parts, nullable, *numbers)
        return self._known[key]

    def one_of(self, mask: int) -> Regular:
        """One byte of those whose bit is set."""
        return self._make("bytes", (), False, mask)

    def text(self, text: bytes) -> Regular:
        """Exactly these bytes."""
        return self.then(*(self.one_of(1 << byte) for byte in text))

    def then(self, *parts: Regular) -> Regular:
        """One after the other."""
        return reduce(lambda after, part: self._pair(part, after), reversed(parts), self.empty)

    def _pair(self, first: Regular, after: Regular) -> Regular:
        if first is self.nothing or after is self.nothing:
            return self.nothing
        if first is self.empty:
            return after
        if after is self.empty:
            return first
        if first.kind == "then":
            return self._behind(first, after)
        return self._make("then", (first, after), first.nullable and after.nullable)

    def _behind(self, first: Regular, after: Regular) -> Regular:
        """The parts of a ``then``, which may be thousands, before another term."""
        heads = []
        while first.kind == "then":
            heads.append(first.parts[0])
            first = first.parts[1]
        return self.then(*heads, first, after)

    def either(self, *parts: Regular) -> Regular:
        """One of them."""
        flat = _flat("either", parts)
        if self.everything in flat:
            return self.everything
        single = reduce(lambda mask, part: mask | part.bytes, flat, 0)
        rest = {part: None for part in flat if part.kind != "bytes"}
        every = [*([self.one_of(single)] if single else []), *sorted(rest, key=id)]
        if len(every) < 2:
            return every[0] if every else self.nothing
        return self._make("either", tuple(every), any(part.nullable for part in every))

    def both(self, *parts: Regular) -> Regular:
        """All of them at once."""
        flat = {part: None for part in _flat("both", parts) if part is not self.everything}
        if self.nothing in flat:
            return self.nothing
        every = sorted(flat, key=id)
        if len(every) < 2:
            return every[0] if every else self.everything
        return self._make("both", tuple(every), all(part.nullable for part in every))

    def other(self, part: Regular) -> Regular:
        """Every text but its own."""
        return part.parts[0] if part.kind == "other" else self._make("other", (part,), not part.nullable)

    def repeat(self, part: Regular, low: int = 0, high: int | None = None) -> Regular:
        """``part`` from ``low`` to ``high`` times; None: without end."""
        last = _ENDLESS if high is None else high
        if last == 0:
            return self._make("repeat", (), True, 0, 0, 0)
        if part in (self.nothing, self.empty):
            return part if part is self.empty or low else self.empty
        if (low, last) == (1, 1):
            return part
        return self._make("repeat", (part,), low == 0 or part.nullable, 0, 0 if part.nullable else low, last)

    def after(self, term: Regular, byte: int) -> Regular:
        """The derivative: what may follow a byte."""
        key = (term, byte)
        if key not in self._derived:
            self._derived[key] = self._derive(term, byte)
        return self._derived[key]

    def _derive(self, term: Regular, byte: int) -> Regular:
        if term.kind == "bytes":
            return self.empty if term.bytes >> byte & 1 else self.nothing
        if term.kind == "then":
            first, rest = term.parts
            taken = self._pair(self.after(first, byte), rest)
            return self.either(taken, self.after(rest, byte)) if first.nullable else taken
        if term.kind == "repeat":
            return self._derive_repeat(term, byte)
        parts = [self.after(part, byte) for part in term.parts]
        if term.kind == "other":
            return self.other(parts[0])
        return self.either(*parts) if term.kind == "either" else self.both(*parts)

    def _derive_repeat(self, term: Regular, byte: int) -> Regular:
        if not term.parts:
            return self.nothing
        high = None if term.high == _ENDLESS else term.high - 1
        return self._pair(self.after(term.parts[0], byte), self.repeat(term.parts[0], max(term.low - 1, 0), high))

    def _classes(self, term: Regular) -> tuple[int, ...]:
        """Sets of bytes, apart and of all bytes, whose bytes have one derivative each."""
        if term not in self._split:
            if term.kind == "bytes":
                self._split[term] = tuple(mask for mask in (term.bytes, self._every & ~term.bytes) if mask)
            else:
                parts = term.parts[:1] if term.kind == "then" and not term.parts[0].nullable else term.parts
                self._split[term] = reduce(_refined, map(self._classes, parts), (self._every,))
        return self._split[term]

    def automaton(self, term: Regular, most: int) -> list[RegularState]:
        """The states of a term's automaton, the first one its start; from each a final one is in reach.

        A language that is empty has one state, without edges and not final.

        Raises:
            TooManyStates: there are more than ``most``.
        """
        order, numbers = [term], {term: 0}
        edges: list[dict[Regular, int]] = []
        for state in order:
            targets: dict[Regular, int] = {}
            for mask in self._classes(state):
                target = self.after(state, (mask & -mask).bit_length() - 1)
                targets[target] = targets.get(target, 0) | mask
                if target is not self.nothing and target not in numbers:
                    numbers[target] = len(order)
                    order.append(target)
            if len(order) > most:
                raise TooManyStates
            edges.append(targets)
        return _trimmed(order, edges)


def _flat(kind: str, parts: Iterable[Regular]) -> list[Regular]:
    return [inner for part in parts for inner in (part.parts if part.kind == kind else (part,))]


def _refined(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(mask for left in one for right in other if (mask := left & right))


def _trimmed(order: list[Regular], edges: list[dict[Regular, int]]) -> list[RegularState]:
    """Only states from which the text can end, numbered anew; the start stays the first."""
    before: dict[Regular, list[Regular]] = {}
    for state, targets in zip(order, edges, strict=True):
        for target in targets:
            before.setdefault(target, []).append(state)
    alive = {state: None for state in order if state.nullable}
    pending = list(alive)
    while pending:
        for state in before.get(pending.pop(), ()):
            if state not in alive:
                alive[state] = None
                pending.append(state)
    kept = [place for place, state in enumerate(order) if state in alive or place == 0]
    numbers = {order[place]: number for number, place in enumerate(kept)}
    return [RegularState(order[place].nullable, _ranges(edges[place], numbers, alive)) for place in kept]


def _ranges(
    targets: Mapping[Regular, int], numbers: Mapping[Regular, int], alive: Mapping[Regular, None]
) -> tuple[tuple[int, int, int], ...]:
    out = []
    for target, mask in targets.items():
        if target in alive:
            out += [(low, high, numbers[target]) for low, high in runs(mask)]
    return tuple(sorted(out))


def runs(mask: int) -> list[tuple[int, int]]:
    """The runs of bits that are set, (first, last) each."""
    out, start = [], 0
    while mask >> start:
        start += (mask >> start & -(mask >> start)).bit_length() - 1
        rest = ~(mask >> start)
        length = (rest & -rest).bit_length() - 1
        out.append((start, start + length - 1))
        start += length
    return out
