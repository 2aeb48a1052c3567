"""The contents of a KV cache, and how far it may be rewound.

A full-length cache keeps every position, so any earlier position may be written again. A ring of S slots that serves
a window of W tokens keeps the last S: going back by r tokens needs the W - 1 positions before the new end, so
r <= S - W is safe. What a recurrence remembers cannot go back at all: the sequence continues at its end or anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol


class CacheState(Protocol):
    """The part of a manifest's StateInfo that rewinding depends on."""

    @property
    def layout(self) -> str:
        """The cache's kind, ``full``, ``ring`` or ``recurrent``."""

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
    """The ring that limits rewinding most, or None when all caches keep every position; a recurrence allows none."""
    rings = [_ring(state) for state in states if state.layout != "full"]
    if not rings:
        return None
    return Ring(slots=min(r.slots for r in rings), slack=min(r.slack for r in rings))


def _ring(state: CacheState) -> Ring:
    if state.layout == "recurrent":
        return Ring(slots=0, slack=0)
    rotating = state.slots - state.sink_tokens
    return Ring(slots=rotating, slack=max(0, rotating - (state.window or rotating)))


class CacheContents:
    """The tokens a KV cache holds, position by position.

    Attributes:
        tokens: the sequence; its length is the next free position.
        high_water: the highest end since position 0 was last written. Positions that a ring overwrote up to there stay
            lost after a rewind.
    """

    def __init__(self, states: Sequence[CacheState] = ()) -> None:
        self.tokens: list[int] = []
        self.high_water = 0
        self._ring = tightest_ring(states)

    def begin(self, start: int, count: int) -> None:
        """Record that ``count`` tokens are about to be written from ``start`` on: nothing from there on is valid.

        If the writing is interrupted, the record then claims no more than the cache surely holds.
        """
        del self.tokens[start:]
        self.high_water = count if start == 0 else max(self.high_water, start + count)

    def write(self, start: int, tokens: Sequence[int]) -> None:
        """Record that ``tokens`` were written from ``start`` on; whatever followed them is no longer valid."""
        self.begin(start, len(tokens))
        self.tokens += tokens

    def hold(self, tokens: Sequence[int], high_water: int) -> None:
        """Record that another cache's contents were put in this one's place."""
        self.tokens, self.high_water = list(tokens), high_water

    def continues_at(self, start: int) -> bool:
        """Whether the next token may be written at ``start``: no gap, and nothing lost that its window needs."""
        if start <= 0 or start > len(self.tokens):
            return start == 0
        ring = self._ring
        return ring is None or self.high_water <= ring.slots or self.high_water - start <= ring.slack

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` need not be computed again; fewer than all, since the last one gives logits."""
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.tokens, tokens, strict=False)))
        kept = min(shared, len(tokens) - 1)
        return kept if self.continues_at(kept) else 0
