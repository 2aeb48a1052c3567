"""How much time speculation may lose: a bucket that fills slowly, pays for wrong drafts and is filled up by right ones.

Whatever the text does, drafts cost at most what the bucket held, a small share of the time spent, and one call more.
"""

from __future__ import annotations

from typing import Final

# Of the time spent, what may be lost.
_SHARE: Final = 0.015
# In calls of one token: what may be lost at once in the beginning, and what gains can add to that.
_GRANT: Final = 1.0
_CEILING: Final = 3.0


class LossBudget:
    """A balance in units of plain calls, of one token each."""

    def __init__(self) -> None:
        self._balance = _GRANT

    @property
    def allows(self) -> bool:
        """Whether a draft may be risked."""
        return self._balance > 0.0

    def spend(self, calls: float) -> None:
        """Time went by that is worth so many plain calls."""
        self._balance = min(_CEILING, self._balance + _SHARE * calls)

    def settle(self, tokens: int, calls: float) -> None:
        """A draft was verified: ``tokens`` came out, in the time of so many plain calls."""
        self._balance = min(_CEILING, self._balance + tokens - calls)
