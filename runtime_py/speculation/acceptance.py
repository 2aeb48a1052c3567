"""The rate at which drafted tokens are right, by their place in the draft: an exponential average after a prior.

A place that was seldom reached is assumed to be like the place before it.
"""

from __future__ import annotations

from typing import Final

# Chance of a first token before anything was seen, and how many observations that is worth.
_PRIOR: Final = 0.5
_PRIOR_WEIGHT: Final = 2.0
# Observations that count: older ones fade.
_MEMORY: Final = 24.0


class Acceptance:
    """The acceptance of one drafter's drafts of one class of confidence."""

    def __init__(self, longest: int) -> None:
        """Begin with the prior for drafts of up to ``longest`` tokens."""
        self._rates = [0.0] * longest
        self._seen = [0.0] * longest
        self._reach: list[float] | None = None

    def observe(self, accepted: int, drafted: int) -> None:
        """Record a draft of ``drafted`` tokens whose first ``accepted`` were right."""
        for place in range(min(accepted + 1, drafted)):
            self._seen[place] = min(self._seen[place] + 1.0, _MEMORY)
            self._rates[place] += ((place < accepted) - self._rates[place]) / self._seen[place]
        self._reach = None

    @property
    def reach(self) -> list[float]:
        """Expected number of right tokens in a draft of 0, 1, ... tokens; its length is the longest draft plus one."""
        if self._reach is None:
            self._reach = self._cumulated()
        return self._reach

    def _cumulated(self) -> list[float]:
        rate, chance, total = _PRIOR, 1.0, 0.0
        reach = [0.0]
        for own, seen in zip(self._rates, self._seen, strict=True):
            rate = (_PRIOR_WEIGHT * rate + seen * own) / (_PRIOR_WEIGHT + seen)
            chance *= rate
            total += chance
            reach.append(total)
        return reach
