"""The contents of a KV cache, how far it may be rewound, and which bytes of the state arena hold it.

A full-length cache keeps every position, so any earlier position may be written again. A ring of S slots that serves
a window of W tokens keeps the last S: going back by r tokens needs the W - 1 positions before the new end, so
r <= S - W is safe. A recurrence drops tokens of the last call only, never its first one, and at most as many as its log
has rows (``ir/state_operators.py``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import StateInfo

Arena = NDArray[np.uint8]


class CacheState(Protocol):
    """The part of a manifest's StateInfo that rewinding depends on."""

    @property
    def layout(self) -> str:
        """The cache's kind, ``full``, ``ring`` or ``recurrent``."""

    @property
    def role(self) -> str:
        """The state's purpose; that of a recurrence's log ends in ``_log``."""

    @property
    def slots(self) -> int:
        """The number of tokens that the buffer holds."""

    @property
    def window(self) -> int | None:
        """The attention window that a ring serves."""

    @property
    def sink_tokens(self) -> int:
        """The number of leading tokens that are kept forever."""


@dataclass(frozen=True)
class Ring:
    """The tightest ring of a model: ``slots`` that rotate, ``slack`` of them beyond the window."""

    slots: int
    slack: int


def tightest_ring(states: Sequence[CacheState]) -> Ring | None:
    """The ring that limits rewinding most, or None where no layer keeps one."""
    rings = [_ring(state) for state in states if state.layout == "ring"]
    if not rings:
        return None
    return Ring(slots=min(r.slots for r in rings), slack=min(r.slack for r in rings))


def _ring(state: CacheState) -> Ring:
    rotating = state.slots - state.sink_tokens
    return Ring(slots=rotating, slack=max(0, rotating - (state.window or rotating)))


def shortest_log(states: Sequence[CacheState]) -> int | None:
    """The most tokens of a call that all recurrences can drop again; None where a model has none."""
    if all(state.layout != "recurrent" for state in states):
        return None
    return min((state.slots for state in states if state.role.endswith("_log")), default=0)


class CacheContents:
    """The tokens a KV cache holds, position by position.

    Attributes:
        tokens: the sequence; its length is the next free position.
        high_water: the highest end since position 0 was last written. Positions that a ring overwrote up to there stay
            lost after a rewind.
        fixed: leading tokens that recurrences cannot drop any more; 0 without recurrences.
        adapter: the digest of the adapter under which they were computed; empty for none.
    """

    def __init__(self, states: Sequence[CacheState] = (), adapter: str = "") -> None:
        self.tokens: list[int] = []
        self.adapter = adapter
        self.high_water = self.fixed = 0
        self._ring, self._log = tightest_ring(states), shortest_log(states)

    def begin(self, start: int, count: int) -> None:
        """Record that ``count`` tokens are about to be written from ``start`` on: nothing from there on is valid.

        If the writing is interrupted, the record then claims no more than the cache surely holds.
        """
        del self.tokens[start:]
        self.high_water = count if start == 0 else max(self.high_water, start + count)
        self.fixed = 0 if self._log is None else start + max(1, count - self._log)

    def write(self, start: int, tokens: Sequence[int]) -> None:
        """Record that ``tokens`` were written from ``start`` on; whatever followed them is no longer valid."""
        self.begin(start, len(tokens))
        self.tokens += tokens

    def hold(self, tokens: Sequence[int], high_water: int, fixed: int | None = None) -> None:
        """Record that another cache's contents were put in this one's place; ``fixed`` None: unknown, as of a file."""
        self.tokens, self.high_water = list(tokens), high_water
        self.fixed = 0 if self._log is None else len(self.tokens) if fixed is None else fixed

    @property
    def whole(self) -> bool:
        """Whether every position is where it was written: no recurrence, and no ring that has come round."""
        return self._log is None and (self._ring is None or self.high_water <= self._ring.slots)

    def continues_at(self, start: int) -> bool:
        """Whether the next token may be written at ``start``: no gap, and nothing lost that its window needs."""
        if start <= 0 or not self.fixed <= start <= len(self.tokens):
            return start == 0
        ring = self._ring
        return ring is None or self.high_water <= ring.slots or self.high_water - start <= ring.slack

    def shared(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` it holds."""
        held, given = self.tokens, list(tokens)
        lengths = range(min(len(held), len(given)))
        # Whole beginnings are compared, which is faster than token by token.
        return bisect_left(lengths, True, key=lambda last: held[: last + 1] != given[: last + 1])

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` need not be computed again; fewer than all, since the last one gives logits."""
        kept = min(self.shared(tokens), len(tokens) - 1)
        return kept if self.continues_at(kept) else 0


def reachable(states: Sequence[StateInfo]) -> bool:
    """Whether the states of an artifact lie in its state arena, so that they can be copied out and in."""
    return bool(states) and all(state.offset is not None for state in states)


def used_slots(state: StateInfo, length: int, high_water: int) -> int:
    """The slots that ``length`` tokens need; all but full caches were written up to ``high_water``, the highest end."""
    return min(length if state.layout == "full" else high_water, state.slots)


def used_bytes(arena: Arena, state: StateInfo, slots: int) -> Arena:
    """A view of a state's first ``slots`` slots: uint8 [bytes], writable when the arena is."""
    assert state.offset is not None  # callers ask `reachable` first
    return arena[state.offset : state.offset + slots * (state.bytes // state.slots)]
