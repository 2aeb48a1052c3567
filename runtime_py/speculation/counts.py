"""What speculation did for one text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SpeculationCounts:
    """Counted, not timed.

    Attributes:
        drafted: tokens that were verified.
        accepted: how many of them were right.
        calls: of the model, after the prompt's; each gives one token beside the right ones.
    """

    drafted: int = 0
    accepted: int = 0
    calls: int = 0

    @property
    def acceptance(self) -> float | None:
        """Share of the drafted tokens that were right, 0..1; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_call(self) -> float | None:
        """Tokens per call of the model; None without a call."""
        return (self.accepted + self.calls) / self.calls if self.calls else None
