"""What a drafted token costs to make, by drafter: the median of the latest drafts, in ms."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median
from typing import Final

_KEPT: Final = 5


class DraftingCost:
    """Learned while generating; 0 before the first draft, so that there is one."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def observe(self, drafter: str, tokens: int, ms: float) -> None:
        """A draft of ``tokens`` tokens took ``ms`` to make."""
        self._times[drafter].append(ms / tokens)

    def ms(self, drafter: str) -> float:
        """Per token."""
        times = self._times[drafter]
        return median(times) if times else 0.0
