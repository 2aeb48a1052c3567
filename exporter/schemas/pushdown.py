"""An automaton over bytes whose states may call others: what a compiled schema is, and its file.

A state has edges for bytes, and calls: follow another state to a final one, then go on at a third. The file is little-
endian: the letters EDGECGR1; the numbers of states, edges and calls (uint32); where each state's edges end, and where
its calls end (uint32); whether each state is final (uint8); the edges (uint8 first and last byte, uint32 target); the
calls (uint32 callee, uint32 next). The text begins at state 0. `engine/core/structure_file.cpp` reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from edgec.exporter.schemas.regular import RegularState

MAGIC: Final = b"EDGECGR1"


@dataclass
class PushdownState:
    """A state that is being built.

    Attributes:
        final: whether a text, or what called it, may go on here.
        edges: (first byte, last byte, target), in order and apart.
        calls: (callee, next).
    """

    final: bool = False
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)


class Pushdown:
    """States that are being built, by number."""

    def __init__(self) -> None:
        """Begin with none."""
        self.states: list[PushdownState] = []

    def add(self, final: bool = False) -> int:
        """A new state; returns its number."""
        self.states.append(PushdownState(final))
        return len(self.states) - 1

    def embed(self, automaton: Sequence[RegularState]) -> int:
        """Take over an automaton; returns the number of its start."""
        first = len(self.states)
        for state in automaton:
            edges = [(low, high, first + target) for low, high, target in state.edges]
            self.states.append(PushdownState(state.final, edges))
        return first

    def productive(self) -> list[bool]:
        """Which states can reach a final one."""
        good = [state.final for state in self.states]
        changed = True
        while changed:
            changed = False
            for number in range(len(good) - 1, -1, -1):
                state = self.states[number]
                if not good[number] and (
                    any(good[target] for _, _, target in state.edges)
                    or any(good[callee] and good[then] for callee, then in state.calls)
                ):
                    good[number] = changed = True
        return good

    def trimmed(self) -> Pushdown:
        """Only what can be reached from state 0 and can reach an end; state 0 stays, even where it cannot."""
        good, order, numbers = self.productive(), [0], {0: 0}
        for number in order:
            state = self.states[number]
            calls = [(callee, then) for callee, then in state.calls if good[callee] and good[then]]
            reached = [
                *(target for _, _, target in state.edges if good[target]),
                *(one for call in calls for one in call),
            ]
            for target in reached:
                if target not in numbers:
                    numbers[target] = len(order)
                    order.append(target)
        made = Pushdown()
        for number in order:
            state = self.states[number]
            edges = [(low, high, numbers[target]) for low, high, target in state.edges if good[target]]
            calls = [(numbers[callee], numbers[then]) for callee, then in state.calls if good[callee] and good[then]]
            made.states.append(PushdownState(state.final, edges, calls))
        return made

    def left_recursive(self) -> bool:
        """Whether a state calls itself again before a byte is read."""
        nullable = self._nullable()
        before = [
            [callee for callee, _ in state.calls] + [then for callee, then in state.calls if nullable[callee]]
            for state in self.states
        ]
        return _has_cycle(before)

    def _nullable(self) -> list[bool]:
        out, changed = [state.final for state in self.states], True
        while changed:
            changed = False
            for number, state in enumerate(self.states):
                if not out[number] and any(out[callee] and out[then] for callee, then in state.calls):
                    out[number] = changed = True
        return out

    def to_bytes(self) -> bytes:
        """The file."""
        edges = [edge for state in self.states for edge in state.edges]
        calls = [call for state in self.states for call in state.calls]
        edge_ends = list(accumulate(len(state.edges) for state in self.states))
        call_ends = list(accumulate(len(state.calls) for state in self.states))
        return b"".join(
            [
                MAGIC,
                struct.pack("<3I", len(self.states), len(edges), len(calls)),
                struct.pack(f"<{2 * len(self.states)}I", *edge_ends, *call_ends),
                bytes(state.final for state in self.states),
                *(struct.pack("<BBI", *edge) for edge in edges),
                *(struct.pack("<2I", *call) for call in calls),
            ]
        )


def _has_cycle(edges: Sequence[Sequence[int]]) -> bool:
    """Whether a graph has a cycle: taking away nodes that nothing leads to leaves some."""
    incoming = [0] * len(edges)
    for targets in edges:
        for target in targets:
            incoming[target] += 1
    pending = [node for node, count in enumerate(incoming) if count == 0]
    taken = 0
    while pending:
        node, taken = pending.pop(), taken + 1
        for target in edges[node]:
            incoming[target] -= 1
            if incoming[target] == 0:
                pending.append(target)
    return taken < len(edges)
