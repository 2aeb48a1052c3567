"""A grammar as a pushdown automaton over bytes: the same texts that `edgec run --grammar` allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgec.errors import InputError
from edgec.exporter.schemas.compiled import MOST_STATES
from edgec.exporter.schemas.lark import lark_grammar
from edgec.exporter.schemas.networks import Network, Rule
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.exporter.schemas.refusals import grammar_refused, too_large_automaton, unclear_end
from edgec.exporter.schemas.regular import RegularState, TooManyStates, runs
from edgec.exporter.schemas.rule_terms import rule_terms
from edgec.exporter.schemas.splitting import Edges, Splitting
from edgec.runtime_py.structured.wanted import wanted


def compile_grammar(grammar: str, where: str = "grammar") -> Pushdown:
    """Compile a grammar in Lark's notation or GBNF.

    Args:
        grammar: its text.
        where: named in errors.

    Raises:
        InputError: E616, it cannot be understood; E615, a part of it has no text; E710, E768, `edgec run` enforces a
            part and this automaton does not; E771, where a terminal ends is not certain; E711, it exceeds a limit.
        ToolError: E619, llguidance is not installed.
    """
    asked = wanted(grammar=grammar)
    assert asked is not None
    try:
        network = Network(rule_terms(lark_grammar(asked.lark, where), where), where)
        machine = _Machine(network, Splitting(network, where), where).whole()
    except (TooManyStates, RecursionError) as error:
        why = f"its automaton has more than {MOST_STATES:,} states, or its parts are nested too deeply"
        raise too_large_automaton(where, why) from error
    except InputError as error:
        if error.code != "E710":
            raise
        raise grammar_refused(error.where, error.why, "say the pattern otherwise", "E710") from error
    assert not machine.left_recursive(), where
    return machine


@dataclass(frozen=True)
class _At:
    """A place of a rule.

    Attributes:
        place: its number in the network.
        barred: the bytes, as bits, that may not come next, since the terminal before would have gone on with them.
        final: whether the rule may end here.
        leaves: what the rule's last terminal may bar; the caller goes on in the same way after each of them.
    """

    place: int
    barred: int
    final: bool
    leaves: frozenset[int]


class _Machine:
    """Builds the automaton: a state for each place, what is barred there, and what may be barred after its rule."""

    def __init__(self, network: Network, splitting: Splitting, where: str) -> None:
        self._network, self._splitting, self._where = network, splitting, where
        self._machine = Pushdown()
        self._states: dict[_At, int] = {}
        self._pending: list[_At] = []
        self._lexemes: dict[object, int] = {}
        # A rule that is called, its state, and the one after it: from both an end must be in reach, or from neither.
        self._called: list[tuple[int, int, int]] = []
        # A terminal in a place, and where to go on by what it bars.
        self._read: list[tuple[_At, int, dict[int, _At]]] = []
        places = [(number, symbol) for number, place in enumerate(network.places) for symbol in place.reads]
        self._bars = frozenset({0}.union(*(splitting.bars(*place) for place in places)))

    def whole(self) -> Pushdown:
        start, end = self._machine.add(final=self._network.terms.empty), self._machine.add(final=True)
        begin = self._state(self._at(self._network.starts[self._network.outermost], 0, self._bars))
        self._machine.states[start].calls.append((begin, end))
        while self._pending:
            self._fill(self._pending.pop())
        self._check_ways()
        return self._machine.trimmed()

    def _at(self, place: int, barred: int, leaves: frozenset[int]) -> _At:
        final = self._network.places[place].final and barred in leaves
        return _At(place, barred & self._splitting.begin_bytes[place], final, leaves)

    def _state(self, at: _At) -> int:
        if at not in self._states:
            if len(self._machine.states) >= MOST_STATES:
                raise TooManyStates
            self._states[at] = self._machine.add(at.final)
            self._pending.append(at)
        return self._states[at]

    def _fill(self, at: _At) -> None:
        place = self._network.places[at.place]
        for symbol, then in place.reads.items():
            self._fill_terminal(at, symbol, then)
        for rule, then in place.calls.items():
            self._fill_rule(at, rule, then)
        if at.leaves != self._bars:
            self._state(self._at(at.place, at.barred, self._bars))

    def _fill_terminal(self, at: _At, symbol: int, then: int) -> None:
        after = {bar: self._at(then, bar, at.leaves) for bar in self._splitting.bars(at.place, symbol)}
        for bar, goes_on in after.items():
            self._call(at, self._lexeme(at, symbol, bar), goes_on)
        if at.leaves == self._bars:
            self._read.append((at, symbol, after))

    def _fill_rule(self, at: _At, rule: Rule, then: int) -> None:
        for goes_on, bars in self._after_rule(then, at.leaves).items():
            callee = self._state(self._at(self._network.starts[rule], at.barred, frozenset(bars)))
            self._call(at, callee, goes_on)
            if at.leaves == self._bars:
                self._called.append((rule.symbol, callee, self._state(goes_on)))

    def _after_rule(self, then: int, leaves: frozenset[int]) -> dict[_At, list[int]]:
        """Where a rule's caller goes on, by what the rule's last terminal bars."""
        out: dict[_At, list[int]] = {}
        for bar in self._bars:
            out.setdefault(self._at(then, bar, leaves), []).append(bar)
        return out

    def _call(self, at: _At, callee: int, after: _At) -> None:
        self._machine.states[self._states[at]].calls.append((callee, self._state(after)))

    def _lexeme(self, at: _At, symbol: int, bar: int) -> int:
        """The state at which a terminal begins that ends where some bytes may not follow."""
        endings = self._splitting.endings(at.place, symbol)
        key = (endings, at.barred, bar)
        if key not in self._lexemes:
            states = [RegularState(end.barred == bar, end.edges) for end in endings]
            edges = tuple(_allowed(states[0], at.barred))
            self._lexemes[key] = self._machine.embed(_behind(edges, states))
            if len(self._machine.states) > MOST_STATES:
                raise TooManyStates
        return self._lexemes[key]

    def _check_ways(self) -> None:
        """Refuse a grammar in which the longest match leads to where no text ends: the library would go there."""
        good = self._machine.productive()
        dead = {symbol for symbol, callee, then in self._called if good[callee] and not good[then]}
        dead |= {symbol for at, symbol, after in self._read if not self._leads_on(at, symbol, after, good)}
        for symbol in sorted(dead):
            name = self._network.terms.names[symbol]
            raise unclear_end(self._where, f"{name} takes what must follow it, since it is read as far as it goes")

    def _leads_on(self, at: _At, symbol: int, after: dict[int, _At], good: list[bool]) -> bool:
        """Whether all beginnings of a terminal lead to an end of it after which something may follow.

        There may be ends after which nothing can, as of a name `int` where a keyword goes on: another reading does.
        """
        ways = {bar for bar, then in after.items() if good[self._states[then]]}
        if any(self._splitting.begin_bytes[then.place] & ~bar for bar, then in after.items() if bar not in ways):
            return False
        endings = self._splitting.endings(at.place, symbol)
        states = [RegularState(end.barred in ways, end.edges) for end in endings]
        return all(_live(_behind(tuple(_allowed(states[0], at.barred)), states)))


def _allowed(state: RegularState, barred: int) -> Iterator[tuple[int, int, int]]:
    """The edges of a state without some bytes."""
    for low, high, target in state.edges:
        for first, last in runs(((1 << high + 1) - (1 << low)) & ~barred):
            yield first, last, target


def _behind(edges: Edges, states: list[RegularState]) -> list[RegularState]:
    """Some states behind a new first one, whose edges lead to them."""
    return [
        RegularState(state.final, tuple((low, high, target + 1) for low, high, target in state.edges))
        for state in (RegularState(False, edges), *states)
    ]


def _live(states: list[RegularState]) -> Iterator[bool]:
    """Whether an end is in reach, for each state that is in reach of the first."""
    ends, size = {number for number, state in enumerate(states) if state.final}, -1
    while size < (size := len(ends)):
        ends |= {place for place, state in enumerate(states) if any(target in ends for _, _, target in state.edges)}
    seen = [0]
    for number in seen:
        yield number in ends or (number == 0 and not states[0].edges)
        seen += {target for _, _, target in states[number].edges} - set(seen)
