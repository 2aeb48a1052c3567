"""Where the terminals of a text end: the library of `edgec run` reads on as long as any terminal may go on.

A terminal that may come where others may come ends before a byte with which none of these goes on, the longest match.
So the automaton of a terminal in a place tells its ends apart by the bytes that may then not follow. Which others may
come is certain for most places; where it is not, and the bytes that may follow depend on it, the grammar is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import or_

from edgec.exporter.schemas.company import Company
from edgec.exporter.schemas.compiled import MOST_STATES
from edgec.exporter.schemas.networks import Network, bits, bytes_of, has_text, symbols_of
from edgec.exporter.schemas.refusals import unclear_end
from edgec.exporter.schemas.regular import RegularState

Automaton = Sequence[RegularState]
Edges = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Ending:
    """A state of a terminal's automaton within a place.

    Attributes:
        barred: where the terminal may end here, the bytes, as bits, that may not follow; else None.
        edges: as those of `RegularState`.
    """

    barred: int | None
    edges: Edges


class Splitting:
    """How terminals end in each place of a network."""

    def __init__(self, network: Network, where: str) -> None:
        """Look at all places.

        Raises:
            InputError: E771, where a terminal ends is not certain.
            TooManyStates: the network is too large.
        """
        self._network, self._terms, self._where = network, network.terms, where
        company = Company(network)
        self._check_ignored(company)
        self._others = company.terminals()
        self._automaton = cache(self._made_automaton)
        self.begin_bytes = [network.first_bytes(place.begins | bits(place.reads)) for place in network.places]
        self.endings = cache(self._endings)

    def _check_ignored(self, company: Company) -> None:
        """Refuse what is ignored where it is another terminal's text, which then never comes, and at a text's ends."""
        ignored, texts = self._terms.ignored, self._terms.texts
        if ignored is None:
            return
        company.check_ends(self._where)
        first = self._network.places[self._network.starts[self._network.outermost]].begins
        for symbol in self._terms.optional & set(symbols_of(first)):
            raise unclear_end(
                self._where, f"what %ignore names may begin a text, where {self._terms.names[symbol]} does"
            )
        for symbol, term in self._terms.terminals.items():
            if symbol != ignored and has_text(texts, texts.both(term, self._terms.terminals[ignored])):
                raise unclear_end(self._where, f"{self._terms.names[symbol]} has a text that %ignore names as well")

    def _made_automaton(self, terminals: int) -> Automaton:
        """The automaton of any of some terminals."""
        terms = [self._terms.terminals[symbol] for symbol in symbols_of(terminals)]
        return self._terms.texts.automaton(self._terms.texts.either(*terms), MOST_STATES)

    def _endings(self, number: int, symbol: int) -> tuple[Ending, ...]:
        """The automaton of a terminal in a place, which tells its ends apart; its start comes first."""
        near = self._rivals(self._network.certain[number], symbol)
        far = self._rivals(near | self._others[number], symbol)
        follow = self._follow(self._network.places[number].reads[symbol], symbol)
        machines = [self._automaton(each) for each in (1 << symbol, near, far)]
        return tuple(
            Ending(
                self._barred(symbol, far, [bytes_of(state) & follow for state in states]) if own.final else None, edges
            )
            for (own, *states), edges in _together(machines)
        )

    def _rivals(self, terminals: int, symbol: int) -> int:
        """A terminal and those of some others that may begin like it."""
        alike = [each for each in symbols_of(terminals) if self._network.firsts[each] & self._network.firsts[symbol]]
        return reduce(or_, (1 << each for each in alike), 1 << symbol)

    def _barred(self, symbol: int, rivals: int, going_on: Sequence[int]) -> int:
        near, far = going_on
        if near != far:
            names = " and ".join(self._terms.names[each] for each in symbols_of(rivals))
            raise unclear_end(self._where, f"{self._terms.names[symbol]} may end where another goes on: {names}"[:300])
        return near

    def _follow(self, number: int, symbol: int) -> int:
        """The bytes that may follow a terminal."""
        after = self._network.follows[number]
        if symbol == self._terms.ignored and self._repeats(symbol):
            after &= ~(1 << symbol)
        return self._network.first_bytes(after)

    def bars(self, number: int, symbol: int) -> set[int]:
        """What may be barred after a terminal in a place."""
        return {end.barred for end in self.endings(number, symbol) if end.barred is not None}

    def _repeats(self, symbol: int) -> bool:
        """Whether two texts of a terminal are one of it, so that it does not matter where the first one ends."""
        texts, term = self._terms.texts, self._terms.terminals[symbol]
        return not has_text(texts, texts.both(texts.then(term, term), texts.other(term)))


def _together(machines: Sequence[Automaton]) -> Iterator[tuple[list[RegularState], Edges]]:
    """The states that a text leads to in all of some automata, with the edges that all have, by their place here."""
    begin = (0,) * len(machines)
    order, numbers = [begin], {begin: 0}
    for places in order:
        states = [machine[place] for machine, place in zip(machines, places, strict=True)]
        edges = []
        for low, high, after in _joint(states):
            if after not in numbers:
                numbers[after] = len(order)
                order.append(after)
            edges.append((low, high, numbers[after]))
        yield states, tuple(edges)


def _joint(states: Sequence[RegularState]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The edges that all of some states have."""
    ends = {end for state in states for low, high, _ in state.edges for end in (low, high + 1)}
    for low, after in pairwise(sorted(ends)):
        targets = [_target(state, low) for state in states]
        if None not in targets:
            yield low, after - 1, tuple(target for target in targets if target is not None)


def _target(state: RegularState, byte: int) -> int | None:
    return next((target for low, high, target in state.edges if low <= byte <= high), None)
