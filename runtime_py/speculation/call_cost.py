"""What a call of so many tokens costs, learned while generating: medians, lines between them, optimism beyond.

Cost is no straight line (matrix kernels work on tiles of rows), so each size keeps its own recent measurements. A size
beyond the largest one measured is thought to cost hardly more: it is tried, and then known. Trials at most double the
largest size known, so that no surprise is a large one.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from statistics import median
from typing import Final

# Measurements kept per size: a median of them outlives one interruption by another process.
_KEPT: Final = 5
# Of one token's cost, what each further token is thought to add before that was measured.
_OPTIMISM: Final = 0.03


class CallCost:
    """Milliseconds per call by number of tokens."""

    def __init__(self, largest: int) -> None:
        """Know nothing yet about calls of 1 to ``largest`` tokens."""
        self._times: list[deque[float]] = [deque(maxlen=_KEPT) for _ in range(largest + 1)]
        self._table: list[float] | None = None

    def observe(self, size: int, ms: float) -> None:
        """Record the time of a call of ``size`` tokens."""
        self._times[size].append(ms)
        self._table = None

    @property
    def trusted(self) -> int:
        """The largest size whose cost is known or may be tried; 0 before the first measurement."""
        largest = max((size for size, times in enumerate(self._times) if times), default=0)
        return min(2 * largest, len(self._times) - 1)

    @property
    def table(self) -> list[float]:
        """Expected ms of a call of 0, 1, ... tokens (the first entry is 0); one token must have been measured."""
        if self._table is None:
            self._table = self._estimates()
        return self._table

    def _estimates(self) -> list[float]:
        points = [(0, 0.0), *((size, median(times)) for size, times in enumerate(self._times) if times)]
        table = [0.0]
        for (low, low_ms), (high, high_ms) in pairwise(points):
            slope = (high_ms - low_ms) / (high - low)
            table += [low_ms + slope * (size - low) for size in range(low + 1, high + 1)]
        last = points[-1][0]
        beyond = range(1, len(self._times) - last)
        return table + [table[last] + _OPTIMISM * table[1] * further for further in beyond]
