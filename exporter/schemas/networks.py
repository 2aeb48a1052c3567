"""The rules of a grammar as automata that read terminals and call each other, and what may stand where in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from operator import or_

from edgec.exporter.schemas.compiled import MOST_STATES
from edgec.exporter.schemas.regular import Regular, RegularPool, RegularState, TooManyStates
from edgec.exporter.schemas.rule_terms import RuleTerms
from edgec.runtime_py.structured.refusals import empty


@dataclass(frozen=True)
class Rule:
    """A rule where it is called; each has states of its own.

    Attributes:
        symbol: the rule.
        outer: whether its end may be the text's.
        beside: other terminals that may come where it begins, as bits: those that may begin like one of its own.
        after: terminals that may come after it, likewise: those that may begin like one with which it may go on.
    """

    symbol: int
    outer: bool
    beside: int
    after: int


@dataclass
class Place:
    """A state of a rule's automaton.

    Attributes:
        rule: the rule.
        first: whether the rule begins here; nothing leads back to such a state.
        final: whether the rule may end here.
        begins: the terminals that the rule may read next here, as bits.
        reads: the next state by the symbol of a terminal.
        calls: the next state by a rule.
    """

    rule: Rule
    first: bool
    final: bool
    begins: int
    reads: dict[int, int] = field(default_factory=dict)
    calls: dict[Rule, int] = field(default_factory=dict)


class Network:
    """The states of all rules. Sets of terminals are numbers whose bits are the terminals' symbols.

    Attributes:
        terms: the terms of the rules.
        places: the states by number.
        starts: where each rule begins.
        outermost: the rule of whole texts.
        firsts: the bytes that a terminal may begin with, as bits.
    """

    def __init__(self, terms: RuleTerms, where: str) -> None:
        """Make the automata of some rules.

        Raises:
            InputError: E615, a rule or a terminal of the grammar has no text.
            TooManyStates: there are more than `MOST_STATES`.
        """
        self.terms, self.places = terms, list[Place]()
        self._automata = {rule: terms.symbols.automaton(body, MOST_STATES) for rule, body in terms.bodies.items()}
        _check_texts(terms, self._automata, where)
        begin = {symbol: terms.texts.automaton(term, MOST_STATES)[0] for symbol, term in terms.terminals.items()}
        self.firsts = {symbol: bytes_of(state) for symbol, state in begin.items()}
        self._begins, self._ends = cache(self._rule_begins), cache(self._rule_ends)
        self.starts: dict[Rule, int] = {}
        self.outermost = Rule(terms.start, True, 0, 0)
        pending = [self.outermost]
        while pending:
            rule = pending.pop()
            if rule not in self.starts:
                self.starts[rule] = len(self.places)
                self._add(rule)
                pending += [called for place in self.places[self.starts[rule] :] for called in place.calls]

    def _add(self, rule: Rule) -> None:
        """Take over a rule's automaton, with one more state to begin at."""
        first, states = len(self.places), self._automata[rule.symbol]
        if first + len(states) >= MOST_STATES:
            raise TooManyStates
        for number, state in enumerate([states[0], *states]):
            place = Place(rule, number == 0, state.final, self._next(state))
            self.places.append(place)
            self._fill(place, state, first + 1)
            # What is ignored may stand before whatever else may come; not where the text begins.
            if self.terms.ignored is not None and place.begins and not place.first:
                place.reads[self.terms.ignored] = first + number

    def _fill(self, place: Place, state: RegularState, offset: int) -> None:
        for low, high, target in state.edges:
            for symbol in range(low, high + 1):
                if symbol in self._automata:
                    place.calls[self._called(place, symbol, target)] = offset + target
                else:
                    place.reads[symbol] = offset + target

    def _called(self, place: Place, symbol: int, target: int) -> Rule:
        """A rule that is called in a place, from where its caller goes on at a state of its automaton."""
        then = self._automata[place.rule.symbol][target]
        here = place.begins | (place.rule.beside if place.first else self._ignored(place))
        after = self._next(then) | (place.rule.after if then.final else 0)
        own, ends = self._begins(symbol), self._ends(symbol)
        outer = place.rule.outer and then.final
        return Rule(symbol, outer, self._alike(here & ~own, own), self._alike(after, ends))

    def _rule_ends(self, rule: int) -> int:
        """The terminals with which a rule may go on where it may also end."""
        out, order = 0, [rule]
        for each in order:
            states = self._automata[each]
            finals = [state for state in states if state.final]
            out |= reduce(or_, (self._next(state) for state in finals), 0)
            tails = {
                symbol
                for state in states
                for low, high, target in state.edges
                if states[target].final
                for symbol in range(low, high + 1)
            }
            order += [symbol for symbol in tails & self._automata.keys() if symbol not in order]
        return out | (0 if self.terms.ignored is None or not out else 1 << self.terms.ignored)

    def _ignored(self, place: Place) -> int:
        return 0 if self.terms.ignored is None or not place.begins else 1 << self.terms.ignored

    def _alike(self, terminals: int, others: int) -> int:
        """Those of some terminals that may begin like others."""
        begin = self.first_bytes(others)
        return bits(symbol for symbol in symbols_of(terminals) if self.firsts[symbol] & begin)

    def _rule_begins(self, rule: int) -> int:
        return self._next(self._automata[rule][0])

    def _next(self, state: RegularState) -> int:
        """The terminals that a rule may read next."""
        symbols = [symbol for low, high, _ in state.edges for symbol in range(low, high + 1)]
        return reduce(or_, (self._begins(each) if each in self._automata else 1 << each for each in symbols), 0)

    def first_bytes(self, terminals: int) -> int:
        """The bytes that some terminals may begin with, as bits."""
        return reduce(or_, (self.firsts[symbol] for symbol in symbols_of(terminals)), 0)

    @cached_property
    def returns(self) -> Mapping[Rule, list[int]]:
        """The states at which callers of a rule go on."""
        out: dict[Rule, list[int]] = {rule: [] for rule in self.starts}
        for place in self.places:
            for rule, then in place.calls.items():
                out[rule].append(then)
        return out

    @cached_property
    def follows(self) -> list[int]:
        """The terminals that some text may have next at a state, also after the end of the state's rule."""
        out, changed = self._own(), True
        while changed:
            changed = False
            for number in range(len(out)):
                more = reduce(or_, (out[then] for then in self._after_end(number)), out[number])
                changed, out[number] = changed or more != out[number], more
        return out

    def _own(self) -> list[int]:
        return [place.begins | bits(place.reads) for place in self.places]

    def _after_end(self, number: int) -> list[int]:
        place = self.places[number]
        return self.returns[place.rule] if place.final else []

    @cached_property
    def certain(self) -> list[int]:
        """The terminals that every text may have next where one of its readings is at a state."""
        return [own | _around(place) for own, place in zip(self._own(), self.places, strict=True)]


def _around(place: Place) -> int:
    return (place.rule.beside if place.first else 0) | (place.rule.after if place.final else 0)


def has_text(pool: RegularPool, term: Regular) -> bool:
    """Whether a term holds a text."""
    return any(state.final for state in pool.automaton(term, MOST_STATES))


def bits(symbols: Iterable[int]) -> int:
    """Some symbols as a number with their bits."""
    return reduce(or_, (1 << symbol for symbol in symbols), 0)


def _check_texts(terms: RuleTerms, automata: Mapping[int, Sequence[RegularState]], where: str) -> None:
    """Refuse terminals and rules without texts: the library would let a text begin that has no end."""
    for symbol, term in terms.terminals.items():
        if not has_text(terms.texts, term):
            raise empty(where, f"{terms.names[symbol]} has no text")
    good, before = set(terms.terminals), 0
    while len(good) > before:
        before = len(good)
        good |= {rule for rule, automaton in automata.items() if _ends(automaton, good)}
    for rule in terms.bodies:
        if rule not in good:
            raise empty(where, f"{terms.names[rule]} holds itself without end, or nothing")


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


def bytes_of(state: RegularState) -> int:
    """The bytes with which a state goes on, as bits."""
    return reduce(or_, ((1 << high + 1) - (1 << low) for low, high, _ in state.edges), 0)


def symbols_of(terminals: int) -> Iterator[int]:
    """The symbols whose bits a number has."""
    return (symbol for symbol in range(terminals.bit_length()) if terminals >> symbol & 1)
