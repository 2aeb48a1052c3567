"""The rules of a grammar as automata that read terminals and call each other, and what may stand where in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import and_, or_

from edgec.exporter.schemas.compiled import MOST_STATES
from edgec.exporter.schemas.regular import Regular, RegularPool, RegularState
from edgec.exporter.schemas.rule_terms import RuleTerms
from edgec.runtime_py.structured.refusals import empty

Rule = tuple[int, bool]
"""A rule's symbol, and whether its end may be the text's: such a rule has states of its own."""


@dataclass
class Place:
    """A state of a rule's automaton.

    Attributes:
        rule: the rule.
        first: whether the rule begins here; nothing leads back to such a state.
        final: whether the rule may end here.
        reads: the next state by the symbol of a terminal.
        calls: the next state by a rule.
    """

    rule: Rule
    first: bool
    final: bool
    reads: dict[int, int] = field(default_factory=dict)
    calls: dict[Rule, int] = field(default_factory=dict)


class Network:
    """The states of all rules. Sets of terminals are numbers whose bits are the terminals' symbols."""

    def __init__(self, terms: RuleTerms, where: str) -> None:
        """Make the automata of some rules.

        Raises:
            InputError: E615, a rule or a terminal of the grammar has no text.
            TooManyStates: there are more than `MOST_STATES`.
        """
        self.terms = terms
        self.places: list[Place] = []
        self.starts: dict[Rule, int] = {}
        _check_texts(terms, where)
        self.outermost = (terms.start, True)
        pending = [self.outermost]
        while pending:
            rule = pending.pop()
            if rule not in self.starts:
                self.starts[rule] = len(self.places)
                self._add(rule)
                pending += [called for place in self.places[self.starts[rule] :] for called in place.calls]
        self._add_ignored()

    def _add(self, rule: Rule) -> None:
        """Take over a rule's automaton, with one more state to begin at."""
        first, (symbol, outer) = len(self.places), rule
        states = self.terms.symbols.automaton(self.terms.bodies[symbol], MOST_STATES - first)
        for number, state in enumerate([states[0], *states]):
            place = Place(rule, number == 0, state.final)
            for low, high, target in state.edges:
                for read in range(low, high + 1):
                    if read in self.terms.bodies:
                        place.calls[read, outer and states[target].final] = first + 1 + target
                    else:
                        place.reads[read] = first + 1 + target
            self.places.append(place)

    def _add_ignored(self) -> None:
        """Let what is ignored stand before whatever else may come; not where the text begins."""
        if self.terms.ignored is not None:
            for number, place in enumerate(self.places):
                if not place.first and self.begins[number]:
                    place.reads[self.terms.ignored] = number

    @cached_property
    def begins(self) -> list[int]:
        """The terminals that a state's own rule may read next there."""
        out = [bits(place.reads) for place in self.places]
        return self._grown(out, lambda number: [self.starts[rule] for rule in self.places[number].calls])

    @cached_property
    def returns(self) -> Mapping[Rule, list[int]]:
        """The states at which callers of a rule go on."""
        out: dict[Rule, list[int]] = {rule: [] for rule in self.starts}
        for place in self.places:
            for rule, then in place.calls.items():
                out[rule].append(then)
        return out

    @cached_property
    def _callers(self) -> Mapping[Rule, list[int]]:
        """The states that call a rule."""
        out: dict[Rule, list[int]] = {rule: [] for rule in self.starts}
        for number, place in enumerate(self.places):
            for rule in place.calls:
                out[rule].append(number)
        return out

    @cached_property
    def follows(self) -> list[int]:
        """The terminals that some text may have next at a state, also after the end of the state's rule."""
        own = [self.begins[number] | bits(place.reads) for number, place in enumerate(self.places)]
        return self._grown(own, self._after_end)

    def _after_end(self, number: int) -> list[int]:
        place = self.places[number]
        return self.returns[place.rule] if place.final else []

    def _grown(self, own: list[int], sources: Callable[[int], Iterable[int]]) -> list[int]:
        """The least sets that hold a state's own and those of its sources."""
        out, changed = list(own), True
        while changed:
            changed = False
            for number in range(len(out)):
                more = reduce(or_, (out[source] for source in sources(number)), out[number])
                changed, out[number] = changed or more != out[number], more
        return out

    @cached_property
    def certain(self) -> list[int]:
        """The terminals that every text may have next where one of its readings is at a state.

        A rule that begins was called by some state, whose other terminals may come as well; likewise after its end.
        """
        own = [self.begins[number] | bits(place.reads) for number, place in enumerate(self.places)]
        out, changed = [bits(self.terms.terminals)] * len(own), True
        while changed:
            changed = False
            for number, place in enumerate(self.places):
                sets = [out[source] for source in self._sources(number)]
                made = own[number] | (reduce(and_, sets) if sets and not self._outermost(place) else 0)
                changed, out[number] = changed or made != out[number], made
        return out

    def _sources(self, number: int) -> list[int]:
        place = self.places[number]
        return self._callers[place.rule] if place.first else self._after_end(number)

    def _outermost(self, place: Place) -> bool:
        return place.rule == self.outermost and (place.first or place.final)


def has_text(pool: RegularPool, term: Regular) -> bool:
    """Whether a term holds a text."""
    return any(state.final for state in pool.automaton(term, MOST_STATES))


def bits(symbols: Iterable[int]) -> int:
    """Some symbols as a number with their bits."""
    return reduce(or_, (1 << symbol for symbol in symbols), 0)


def _check_texts(terms: RuleTerms, where: str) -> None:
    """Refuse terminals and rules without texts: the library would let a text begin that has no end."""
    for symbol, term in terms.terminals.items():
        if not has_text(terms.texts, term):
            raise empty(where, f"{terms.names[symbol]} has no text")
    automata = {rule: terms.symbols.automaton(body, MOST_STATES) for rule, body in terms.bodies.items()}
    good, before = set(terms.terminals), 0
    while len(good) > before:
        before = len(good)
        good |= {rule for rule, automaton in automata.items() if _ends(automaton, good)}
    for rule in terms.bodies:
        if rule not in good:
            raise empty(where, f"{terms.names[rule]} holds itself without end")


def _ends(automaton: Sequence[RegularState], good: set[int]) -> bool:
    """Whether a final state is in reach by good symbols."""
    pending, seen = [0], {0}
    while pending:
        state = automaton[pending.pop()]
        if state.final:
            return True
        reached = {target for low, high, target in state.edges if not good.isdisjoint(range(low, high + 1))} - seen
        seen |= reached
        pending += reached
    return False


def symbols_of(terminals: int) -> Iterator[int]:
    """The symbols whose bits a number has."""
    return (symbol for symbol in range(terminals.bit_length()) if terminals >> symbol & 1)
