"""The time that speculation may lose: a balance that time fills slowly, right drafts fill fast, and wrong ones empty.

Planning that leads to no draft empties it too: with a model of 0.3 ms a call it takes 5 % of the time (measured).
Any text loses at most the grant, a small share of its time, and one verifying call. Gains are spent within the text
that made them; debts are carried over.
"""

from __future__ import annotations

from typing import Final

# The share of the time spent that may be lost.
_SHARE: Final = 0.015
# The loss allowed at once at the beginning of a text, in calls of one token.
_GRANT: Final = 1.0


class LossBudget:
    """A balance in units of plain calls, of one token each."""

    def __init__(self) -> None:
        self._balance = _GRANT

    def begin(self) -> None:
        """Begin a new text."""
        self._balance = min(self._balance, _GRANT)

    @property
    def allows(self) -> bool:
        """Whether a draft is allowed."""
        return self._balance > 0.0

    def spend(self, calls: float) -> None:
        """Record elapsed time, in plain calls."""
        self._balance += _SHARE * calls

    def settle(self, tokens: int, calls: float) -> None:
        """Record that ``tokens`` came out in the time of ``calls`` plain calls, after verifying or planning a draft."""
        self._balance += tokens - calls
