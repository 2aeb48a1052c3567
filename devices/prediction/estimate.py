"""The ``Range`` in which every estimate is given, with its confidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """An estimated number, given as a range.

    Attributes:
        low: lower end.
        mid: the best single guess.
        high: upper end.
        confidence: share of cases that the range is meant to hold, 0..1; None where the ends are bounds, not quantiles.
        how: how the number was obtained.
    """

    low: float
    mid: float
    high: float
    confidence: float | None
    how: str = "estimated"

    def scaled(self, factor: float) -> Range:
        """The range multiplied by a factor, for example into another unit."""
        return Range(self.low * factor, self.mid * factor, self.high * factor, self.confidence, self.how)

    def at_most(self, bound: float | None) -> Range:
        """The range, which ends at a bound; None: there is none."""
        if bound is None or self.high <= bound:
            return self
        low, mid, high = (min(end, bound) for end in (self.low, self.mid, self.high))
        return Range(low, mid, high, self.confidence, self.how)

    def invert(self, numerator: float) -> Range:
        """``numerator / range``, for example seconds from a rate."""
        return Range(numerator / self.high, numerator / self.mid, numerator / self.low, self.confidence, self.how)
