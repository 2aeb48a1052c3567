"""The cost of a call by its number of tokens, and of drafting a token, both learned while generating.

Cost is not a straight line (matrix kernels work on tiles of rows), so each size keeps its own recent measurements, with
straight lines between them. A size beyond the largest one measured is assumed to cost hardly more: it is tried, and
then known. Trials at most double the largest size known, which bounds the loss. Few measurements are given less weight:
the first call of a size also sets up its memory, and another process may have interrupted it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import pairwise
from statistics import median
from typing import Final

# Measurements kept per size: a median of them outlives interruptions.
_KEPT: Final = 5
# The share of one token's cost that each further token is assumed to add before that was measured.
_OPTIMISM: Final = 0.03
# The share of a median of n measurements that is doubted: this over n squared.
_DOUBT: Final = 0.4
# Below this many measurements, no size is assumed to cost more than its tokens one by one.
_FEW: Final = 3


class CallCost:
    """Milliseconds per call by number of tokens.

    Attributes:
        trusted: the largest size whose cost is known or may be tried; 0 before the first measurement.
    """

    def __init__(self, largest: int) -> None:
        """Know nothing yet about calls of 1 to ``largest`` tokens."""
        self.trusted = 0
        self._times: list[deque[float]] = [deque(maxlen=_KEPT) for _ in range(largest + 1)]
        self._medians: dict[int, float] = {}
        self._table: list[float] | None = None

    def observe(self, size: int, ms: float) -> None:
        """Record the time of a call of ``size`` tokens."""
        self._times[size].append(ms)
        self._medians.pop(size, None)
        self._table = None
        self.trusted = max(self.trusted, min(2 * size, len(self._times) - 1))

    @property
    def one(self) -> float:
        """Expected ms of a call of one token, which must have been measured."""
        return self._median(1)

    def _median(self, size: int) -> float:
        if size not in self._medians:
            self._medians[size] = median(self._times[size])
        return self._medians[size]

    @property
    def table(self) -> list[float]:
        """Expected ms of a call of 0, 1, ... tokens (the first entry is 0); one token must have been measured."""
        if self._table is None:
            self._table = self._estimates()
        return self._table

    def _estimates(self) -> list[float]:
        one = self.one
        known = ((size, self._expected(size, one)) for size in range(2, len(self._times)) if self._times[size])
        points = [(0, 0.0), (1, one), *known]
        table = [0.0]
        for (low, low_ms), (high, high_ms) in pairwise(points):
            slope = (high_ms - low_ms) / (high - low)
            table += [low_ms + slope * (size - low) for size in range(low + 1, high + 1)]
        return table + [
            table[-1] + _OPTIMISM * one * further for further in range(1, len(self._times) - len(table) + 1)
        ]

    def _expected(self, size: int, one: float) -> float:
        count = len(self._times[size])
        doubted = self._median(size) * (1.0 - _DOUBT / count**2)
        return doubted if count >= _FEW else min(doubted, size * one)


class DraftingCost:
    """Milliseconds to draft a token, by drafter: the median of the latest drafts; 0 before the first, to invite one."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def observe(self, drafter: str, tokens: int, ms: float) -> None:
        """Record that a draft of ``tokens`` tokens took ``ms`` to make."""
        self._times[drafter].append(ms / tokens)

    def ms(self, drafter: str) -> float:
        """The milliseconds that a drafter takes for each token."""
        times = self._times[drafter]
        return median(times) if times else 0.0
