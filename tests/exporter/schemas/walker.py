"""A compiled schema followed byte by byte in Python, beside the engine of `edgec run` over a vocabulary of bytes."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np

from edgec.exporter.schemas.compiled import compile_schema
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.runtime_py.structured.engine import GrammarEngine, Matcher
from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.wanted import Wanted, normalised_schema, wanted

BYTES: Final = Vocabulary(
    (*(bytes([byte]) for byte in range(256)), b""), special=frozenset([256]), eos=frozenset([256])
)
# A text that can be read in more ways is not followed further: their number may double with every byte.
_MOST_PLACES: Final = 4000
Place = tuple[int, tuple[int, ...]]


class Walker:
    """The places in an automaton after some bytes: a state each, with the states to go on at."""

    def __init__(self, machine: Pushdown) -> None:
        self._states = machine.states
        self.places: set[Place] = self._opened({(0, ())})

    def _opened(self, places: set[Place]) -> set[Place]:
        pending, seen = list(places), set(places)
        while pending:
            state, stack = pending.pop()
            reached = [(callee, (then, *stack)) for callee, then in self._states[state].calls]
            reached += [(stack[0], stack[1:])] if self._states[state].final and stack else []
            for place in reached:
                if place not in seen:
                    seen.add(place)
                    pending.append(place)
        return seen

    def next_bytes(self) -> set[int]:
        """The bytes that may come next."""
        edges = [edge for state, _ in self.places for edge in self._states[state].edges]
        return {byte for low, high, _ in edges for byte in range(low, high + 1)}

    @property
    def whole(self) -> bool:
        """Whether the text may end."""
        return any(self._states[state].final and not stack for state, stack in self.places)

    def take(self, byte: int) -> None:
        """Move on by a byte."""
        reached = {
            (target, stack)
            for state, stack in self.places
            for low, high, target in self._states[state].edges
            if low <= byte <= high
        }
        self.places = self._opened(reached)


_ENGINE: Final[list[GrammarEngine]] = []


def matcher_of(asked: Wanted) -> Matcher:
    """The library of `edgec run` at the beginning of a text."""
    if not _ENGINE:
        _ENGINE.append(GrammarEngine(BYTES))
    return _ENGINE[0].compile(asked.grammar)


def library_matcher(schema: Any) -> Matcher:
    """The library at the beginning of a schema's text."""
    asked = wanted(schema=schema)
    assert asked is not None
    return matcher_of(asked)


def difference(schema: Any, chance: random.Random, most: int = 60, machine: Pushdown | None = None) -> str:
    """Walk at random along both; says where they first allow different bytes, or nothing."""
    walker = Walker(machine or compile_schema(normalised_schema(schema)))
    return first_difference(walker, library_matcher(schema), chance, most)


def first_difference(walker: Walker, matcher: Matcher, chance: random.Random, most: int) -> str:
    """Walk at random along both; says where they first allow different bytes, or nothing."""
    text = b""
    for _ in range(most):
        theirs = {int(byte) for byte in np.flatnonzero(matcher.allowed()[:256])}
        mine = walker.next_bytes()
        if mine != theirs or walker.whole != matcher.accepting:
            return f"after {text!r}: more {bytes(sorted(mine - theirs))!r}, less {bytes(sorted(theirs - mine))!r}, " + (
                f"whole {walker.whole}, {matcher.accepting}"
            )
        if not mine or len(walker.places) > _MOST_PLACES:
            return ""
        byte = _likely(sorted(mine), chance)
        text += bytes([byte])
        walker.take(byte)
        matcher.consume([byte])
    return ""


def _likely(allowed: list[int], chance: random.Random) -> int:
    """A byte, more often one of those that change something than a letter."""
    marked = [byte for byte in allowed if chr(byte) in '"}]:,\\.-']
    return chance.choice(marked if marked and chance.random() < 0.4 else allowed)
