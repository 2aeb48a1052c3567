"""How much time speculation may lose: a balance that time fills slowly, right drafts fill fast, and wrong ones empty.

Planning that leads to no draft empties it too: beside a model of 0.3 ms a call it takes 5 % of the time (measured).
Whatever a text does, it loses at most the grant, a small share of its time, and one verifying call. Gains are spent
within the text that made them; debts are carried on.
"""

from __future__ import annotations

from typing import Final

# Of the time spent, what may be lost.
_SHARE: Final = 0.015
# In calls of one token: what may be lost at once in the beginning of a text.
_GRANT: Final = 1.0


class LossBudget:
    """A balance in units of plain calls, of one token each."""

    def __init__(self) -> None:
        self._balance = _GRANT

    def begin(self) -> None:
        """A new text begins."""
        self._balance = min(self._balance, _GRANT)

    @property
    def allows(self) -> bool:
        """Whether a draft may be risked."""
        return self._balance > 0.0

    def spend(self, calls: float) -> None:
        """Time went by that is worth so many plain calls."""
        self._balance += _SHARE * calls

    def settle(self, tokens: int, calls: float) -> None:
        """``tokens`` came out in the time of so many plain calls: a draft was verified, or planned in vain."""
        self._balance += tokens - calls
