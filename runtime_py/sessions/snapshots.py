"""Copies of states that a session cannot rewind, made at some positions so that a text can continue from there.

A full cache keeps every position. A ring and a recurrence do not; at the end of a prompt they are copied, so that the
next turn of a conversation need not compute everything again where it differs from the answer that followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.bundle.entry_points import StateInfo
from edgec.runtime_py.sessions.cache_contents import Arena, CacheContents, reachable, used_bytes, used_slots
from edgec.runtime_py.sessions.saved_session import Restorable


@dataclass(frozen=True)
class Snapshot:
    """A position of a sequence: its tokens, and a copy of each state that is not a full cache."""

    contents: CacheContents
    parts: tuple[Arena, ...]

    @property
    def bytes(self) -> int:
        """The memory that the copies take."""
        return sum(part.nbytes for part in self.parts)


class Snapshots:
    """The latest snapshots of one session; none where its states are all full caches, or out of reach."""

    def __init__(self, session: Restorable, states: Sequence[StateInfo], most: int = 2) -> None:
        """Keep at most ``most`` snapshots of a session whose model has these states."""
        self._session, self._most = session, most
        self._states, self._copied = tuple(states), tuple(state for state in states if state.layout != "full")
        self._kept: list[Snapshot] = []

    @property
    def bytes(self) -> int:
        """The memory that all snapshots take."""
        return sum(snapshot.bytes for snapshot in self._kept)

    def keep(self) -> None:
        """Copy the session as it is now; the oldest snapshot goes where there are too many."""
        arena, cache = self._session.arena, self._session.cache
        if arena is None or not self._copied or not reachable(self._states) or not cache.tokens:
            return
        contents = CacheContents(self._states, cache.adapter)
        contents.hold(cache.tokens, cache.high_water, cache.fixed)
        views = (self._view(arena, state, contents) for state in self._copied)
        kept = [snapshot for snapshot in self._kept if self._valid(snapshot)]
        self._kept = [*kept, Snapshot(contents, tuple(view.copy() for view in views))][-self._most :]

    def recall(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the session can continue from, after going back to a snapshot where that is more.

        Fewer than all of them, since the last one gives logits.
        """
        held = self._session.cache.reusable(tokens)
        valid = [snapshot for snapshot in self._kept if self._valid(snapshot)]
        best = max(valid, key=lambda snapshot: snapshot.contents.reusable(tokens), default=None)
        count = best.contents.reusable(tokens) if best else 0
        if best is None or count <= held:
            return held
        self._restore(best)
        return count

    def _valid(self, snapshot: Snapshot) -> bool:
        """Whether the adapter is the same, and the full caches still hold the snapshot's tokens."""
        tokens = snapshot.contents.tokens
        if snapshot.contents.adapter != self._session.cache.adapter:
            return False
        return len(self._copied) == len(self._states) or self._session.cache.tokens[: len(tokens)] == tokens

    def _restore(self, snapshot: Snapshot) -> None:
        arena, cache, contents = self._session.arena, self._session.cache, snapshot.contents
        assert arena is not None  # it was copied from there
        cache.hold((), 0)
        for state, part in zip(self._copied, snapshot.parts, strict=True):
            self._view(arena, state, contents)[:] = part
        cache.hold(contents.tokens, contents.high_water, contents.fixed)

    @staticmethod
    def _view(arena: Arena, state: StateInfo, contents: CacheContents) -> Arena:
        return used_bytes(arena, state, used_slots(state, len(contents.tokens), contents.high_water))
