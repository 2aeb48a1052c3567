"""Which states of a grammar's rules readings of one text may be at together, more rather than fewer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from edgec.exporter.schemas.networks import Network, has_text
from edgec.exporter.schemas.regular import TooManyStates
from edgec.exporter.schemas.refusals import unclear_end

_MOST_PAIRS = 1 << 20
# A state, and whether its reading came there, or to where it returned from, by the end of rules alone.
Spot = tuple[int, bool]


class Company:
    """Pairs of states that some text leads to both of, found by following all pairs from the beginning."""

    def __init__(self, network: Network) -> None:
        """Find them.

        Raises:
            TooManyStates: there are too many.
        """
        self._network, self._terms = network, network.terms
        self._together = cache(self._overlap)
        start = (network.starts[network.outermost], False)
        self._pairs = {(start, start)}
        pending = [(start, start)]
        while pending:
            one, other = pending.pop()
            reached = [(spot, other) for spot in self._opened(one)] + [(one, spot) for spot in self._opened(other)]
            fresh = {pair for pair in (*reached, *self._read(one, other)) if pair not in self._pairs}
            self._pairs |= fresh
            pending += fresh
            if len(self._pairs) > _MOST_PAIRS:
                raise TooManyStates

    def terminals(self) -> list[int]:
        """The terminals that other readings may have next, by state, as a number with their bits."""
        out = [0] * len(self._network.places)
        for (number, _), (other, _) in self._pairs:
            for symbol in self._network.places[other].reads:
                out[number] |= 1 << symbol
        return out

    def check_ends(self, where: str) -> None:
        """Refuse a grammar where a text that is whole may go on in another reading alone.

        What is ignored may stand at the end of a text where something may follow.

        Raises:
            InputError: E771.
        """
        for (number, bare), (other, _) in self._pairs:
            place = self._network.places[number]
            if bare and place.final and place.rule == self._network.outermost and self._network.places[other].reads:
                name = self._terms.names[min(self._network.places[other].reads)]
                raise unclear_end(where, f"whether what %ignore names may end a text: {name} may follow it, or not")

    def _opened(self, spot: Spot) -> Iterator[Spot]:
        """Where a reading is at as well, before anything is read."""
        number, bare = spot
        place = self._network.places[number]
        for rule in place.calls:
            yield self._network.starts[rule], False
        if place.final:
            for then in self._network.returns[place.rule]:
                yield then, bare and self._bare(then)

    def _bare(self, number: int) -> bool:
        return self._terms.ignored is not None and not self._network.begins[number]

    def _read(self, one: Spot, other: Spot) -> Iterator[tuple[Spot, Spot]]:
        """Where two readings are at after the same terminal's text, or that of two that have a text in common."""
        mine, theirs = (self._network.places[number].reads for number, _ in (one, other))
        for symbol, target in mine.items():
            for also, there in theirs.items():
                if self._together(min(symbol, also), max(symbol, also)):
                    yield (target, self._bare(target)), (there, self._bare(there))

    def _overlap(self, one: int, other: int) -> bool:
        if one == other:
            return True
        term, also = self._terms.terminals[one], self._terms.terminals[other]
        return has_text(self._terms.texts, self._terms.texts.both(term, also))
