"""How many of a phone's cores edgec's engine shares a step among, from their clocks (docs/kernels.md).

Shares are equal and a step waits for the slowest: on n cores it takes 1 / (n x the least clock among them). Cores below
three quarters of the highest clock are left out, since small cores also do less in a cycle. On the phone itself the
engine reads the capacities that the system states (``engine/core/shared_cores.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

ClockClusters = Sequence[tuple[int, float]]
"""Cores and their highest clock in Hz, of each kind."""

_OF_THE_HIGHEST = 0.75


def thread_count(clocks: ClockClusters) -> int:
    """The number of cores for which a step is shortest; of two as short, the fewer."""
    highest = max(clock for _, clock in clocks)
    kinds = sorted((kind for kind in clocks if kind[1] >= _OF_THE_HIGHEST * highest), key=lambda kind: -kind[1])
    rates = [cores * clock for cores, (_, clock) in zip(accumulate(cores for cores, _ in kinds), kinds, strict=True)]
    best = rates.index(max(rates))
    return sum(cores for cores, _ in kinds[: best + 1])


def thread_words(clocks: ClockClusters) -> str:
    """The same with its reason, as ``edgec plan`` prints it."""
    cores, used = sum(count for count, _ in clocks), thread_count(clocks)
    if used == cores:
        return f"{used}, one for each core"
    return f"{used} of {cores} cores: a step would wait for the slower ones"
