"""How many of a phone's cores edgec's engine shares a step among, from their clocks (docs/kernels.md).

Shares are equal and a step waits for the slowest: on n cores it takes 1 / (n x the least clock among them). Cores below
three quarters of the highest clock are left out, since small cores also do less in a cycle. On the phone itself the
engine reads the capacities that the system states (``engine/core/shared_cores.cpp``).
"""

from __future__ import annotations

from collections.abc import Sequence

ClockClusters = Sequence[tuple[int, float]]
"""Cores and their highest clock in Hz, of each kind."""

_OF_THE_HIGHEST = 0.75


def thread_count(clocks: ClockClusters) -> int:
    """The number of cores for which a step is shortest; of two as short, the fewer."""
    each = sorted((clock for cores, clock in clocks for _ in range(cores)), reverse=True)
    large = [clock for clock in each if clock >= _OF_THE_HIGHEST * each[0]]
    return max(range(1, len(large) + 1), key=lambda threads: threads * large[threads - 1])


def thread_words(clocks: ClockClusters) -> str:
    """The same with its reason, as ``edgec plan`` prints it."""
    cores, used = sum(count for count, _ in clocks), thread_count(clocks)
    if used == cores:
        return f"{used}, one for each core"
    return f"{used} of {cores} cores: a step would wait for the slower ones"
