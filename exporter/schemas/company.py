"""Which terminals may come where one may: by other alternatives, after the end of rules, by other readings.

Two readings of a text part where a state lets terminals come that have a text in common. From there on all pairs of
states are followed that some text may lead them to, rather more than fewer: rules return to any caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Final

from edgec.exporter.schemas.networks import Network, bits, has_text
from edgec.exporter.schemas.refusals import unclear_end
from edgec.exporter.schemas.regular import TooManyStates

_MOST_PAIRS: Final = 1 << 20
# A state, and whether its reading came there, or to where it returned from, by the end of rules alone.
Spot = tuple[int, bool]
SpotPair = tuple[Spot, Spot]


class Company:
    """Pairs of states that two readings of some text lead to."""

    def __init__(self, network: Network) -> None:
        """Find them.

        Raises:
            TooManyStates: there are too many.
        """
        self._network, self._terms = network, network.terms
        self._together = cache(self._overlap)
        self._pairs = {pair for number in range(len(network.places)) for pair in self._parting(number)}
        pending = list(self._pairs)
        while pending:
            fresh = set(self._next(*pending.pop())) - self._pairs
            self._pairs |= fresh
            pending += fresh
            if len(self._pairs) > _MOST_PAIRS:
                raise TooManyStates

    def terminals(self) -> list[int]:
        """The terminals that may come where the terminals of a state may, by state, as numbers with their bits."""
        ended = self._grown([0] * len(self._network.places), self._ended)
        out = [follow | before for follow, before in zip(self._network.follows, ended, strict=True)]
        out = self._grown(out, self._calling)
        for (number, _), (other, _) in self._pairs:
            out[number] |= bits(self._network.places[other].reads)
            out[other] |= bits(self._network.places[number].reads)
        return out

    def _grown(self, sets: list[int], passed: Callable[[int, int], Iterator[tuple[int, int]]]) -> list[int]:
        """The least sets that hold what is passed on to them by the state of each."""
        changed = True
        while changed:
            changed = False
            for number in range(len(sets)):
                for other, terminals in passed(number, sets[number]):
                    changed = changed or bool(terminals & ~sets[other])
                    sets[other] |= terminals
        return sets

    def _ended(self, number: int, before: int) -> Iterator[tuple[int, int]]:
        """Where a rule's end leads to, with the terminals that its rule, and those that ended before, may have had."""
        place = self._network.places[number]
        for then in self._network.returns[place.rule] if place.final else ():
            yield then, before | place.begins | bits(place.reads)

    def _calling(self, number: int, beside: int) -> Iterator[tuple[int, int]]:
        return ((self._network.starts[rule], beside) for rule in self._network.places[number].calls)

    def check_ends(self, where: str) -> None:
        """Refuse a grammar where a text that is whole may go on in another reading alone.

        What is ignored may stand at the end of a text where something may follow.

        Raises:
            InputError: E771.
        """
        for pair in self._pairs:
            for (number, bare), (other, _) in (pair, pair[::-1]):
                place = self._network.places[number]
                if bare and place.final and place.rule == self._network.outermost and self._network.places[other].reads:
                    name = self._terms.names[min(self._network.places[other].reads)]
                    raise unclear_end(where, f"whether what %ignore names may end a text: {name} may follow it, or not")

    def _opened(self, number: int) -> list[int]:
        """A state and those at which rules begin that it calls; one that is called in several ways is there twice."""
        out = [number]
        for here in out:
            starts = [self._network.starts[rule] for rule in self._network.places[here].calls]
            out += [start for start in starts if out.count(start) < 2]
        return out

    def _after_end(self, number: int) -> set[int]:
        """The states that are reached by the end of a state's rule."""
        out, pending = set[int](), [number]
        while pending:
            place = self._network.places[pending.pop()]
            fresh = set(self._network.returns[place.rule] if place.final else ()) - out
            out |= fresh
            pending += fresh
        return {opened for then in out for opened in self._opened(then)}

    def _parting(self, number: int) -> Iterator[SpotPair]:
        """Where readings are at that part in a state; what is ignored parts none."""
        mine = self._reads(self._opened(number))
        for one, other in combinations(mine, 2):
            yield from self._read_both(one, other)
        for one in mine:
            for other in self._reads(self._after_end(number)):
                yield from self._read_both(one, other)

    def _reads(self, numbers: list[int] | set[int]) -> list[tuple[int, int]]:
        reads = (read for number in numbers for read in self._network.places[number].reads.items())
        return [read for read in reads if read[0] != self._terms.ignored]

    def _read_both(self, one: tuple[int, int], other: tuple[int, int]) -> Iterator[SpotPair]:
        """Where two readings are at after a terminal's text that is also another terminal's."""
        (symbol, then), (also, there) = one, other
        if self._together(min(symbol, also), max(symbol, also)):
            yield _pair((then, self._bare(then)), (there, self._bare(there)))

    def _next(self, one: Spot, other: Spot) -> Iterator[SpotPair]:
        """Where two readings are at as well, or next."""
        for spot in self._moved(one):
            yield _pair(spot, other)
        for spot in self._moved(other):
            yield _pair(one, spot)
        for mine in self._network.places[one[0]].reads.items():
            for theirs in self._network.places[other[0]].reads.items():
                yield from self._read_both(mine, theirs)

    def _moved(self, spot: Spot) -> Iterator[Spot]:
        """Where a reading is at as well, before anything is read."""
        number, bare = spot
        place = self._network.places[number]
        for rule in place.calls:
            yield self._network.starts[rule], False
        if place.final:
            for then in self._network.returns[place.rule]:
                yield then, bare and self._bare(then)

    def _bare(self, number: int) -> bool:
        return self._terms.ignored is not None and not self._network.places[number].begins

    def _overlap(self, one: int, other: int) -> bool:
        if one == other:
            return True
        term, also = self._terms.terminals[one], self._terms.terminals[other]
        return has_text(self._terms.texts, self._terms.texts.both(term, also))


def _pair(one: Spot, other: Spot) -> SpotPair:
    return (one, other) if one <= other else (other, one)
