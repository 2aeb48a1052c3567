"""The bytes of a session's state arena that hold a sequence: the slots that were written, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import StateInfo

Arena = NDArray[np.uint8]


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
