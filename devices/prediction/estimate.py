"""A number that was estimated: always a range, always with its confidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """An estimate.

    Attributes:
        low: lower end.
        mid: the best single guess.
        high: upper end.
        confidence: share of cases the range is meant to hold, 0..1; None when the ends are bounds, not quantiles.
        how: how it was obtained.
    """

    low: float
    mid: float
    high: float
    confidence: float | None
    how: str = "estimated"

    def scaled(self, factor: float) -> Range:
        """The range in another unit."""
        return Range(self.low * factor, self.mid * factor, self.high * factor, self.confidence, self.how)

    def inverted(self, numerator: float) -> Range:
        """``numerator / range``: seconds from a rate."""
        return Range(numerator / self.high, numerator / self.mid, numerator / self.low, self.confidence, self.how)
