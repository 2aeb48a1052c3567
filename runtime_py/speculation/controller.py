"""The length of the next draft, learned from how often drafts were right and how long calls took.

A draft of d tokens of which ``reach[d]`` are expected to be right brings ``1 + reach[d]`` tokens for the cost of a call
of d + 1 tokens and of the drafting. The length with the best rate wins; where none beats a plain call, or the loss
budget is used up, nothing is drafted. Free drafts are still judged against the text as it comes, so that their
acceptance is known without any call; others are tried again at growing intervals. All times are in ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edgec.runtime_py.speculation.acceptance import Acceptance
from edgec.runtime_py.speculation.call_cost import CallCost

# The share of the time spent that may be lost.
_SHARE: Final = 0.015
# The loss allowed at once at the beginning of a text, in calls of one token.
_GRANT: Final = 1.0
# A draft must promise this much more than a plain call: estimates are noisy.
_MARGIN: Final = 1.03
# The factor on a rejected offer's cost when it gets another chance.
_SECOND_CHANCE: Final = 0.7
# Plain steps before a second chance: doubled each time, back to the first where drafts pay.
_PATIENCE: Final = (16, 1024)
# Verifying calls in a row before a plain one refreshes the estimate of its cost.
_REFRESH: Final = 100


class LossBudget:
    """The time that speculation may lose: a balance that time fills slowly, right drafts fast, and wrong ones empty.

    Its unit is a plain call, of one token. Planning that leads to no draft empties it too: with a model of 0.3 ms a
    call it takes 5 % of the time (measured). Any text loses at most the grant, a small share of its time, and one
    verifying call. Gains are spent within the text that made them; debts are carried over.
    """

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


@dataclass(frozen=True)
class Offer:
    """A draft that could be verified, or made and verified.

    Attributes:
        drafter: its name.
        confidence: the draft's class; 0 where it is not made yet.
        longest: the most tokens that it can have.
        draft_ms: the cost of drafting one token.
    """

    drafter: str
    confidence: int
    longest: int
    draft_ms: float = 0.0


@dataclass(frozen=True)
class DraftPlan:
    """The plan to verify ``length`` tokens of the offer with index ``offer``; 0 tokens are a plain call."""

    offer: int = 0
    length: int = 0


_PLAIN: Final = DraftPlan()


class Controller:
    """Chooses among offers and learns from the outcomes. One per model; it may serve many texts."""

    def __init__(self, longest: int) -> None:
        """Begin without knowledge; drafts have at most ``longest`` tokens."""
        self.costs = CallCost(longest + 1)
        self._acceptance: defaultdict[tuple[str, int], Acceptance] = defaultdict(lambda: Acceptance(longest))
        self._budget = LossBudget()
        self._patience, self._declined, self._in_a_row = _PATIENCE[0], 0, 0

    def begin(self) -> None:
        """Begin a new text."""
        self._budget.begin()

    @property
    def may_draft(self) -> bool:
        """Whether the budget allows a draft, or planning one."""
        return self._budget.allows

    def plan(self, offers: Sequence[Offer]) -> DraftPlan:
        """The best of the offers, or a plain call."""
        if not offers or not self.costs.trusted or self._in_a_row >= _REFRESH:
            return _PLAIN
        gain, plan = max((self._best(index, offer) for index, offer in enumerate(offers)), key=lambda best: best[0])
        if gain > _MARGIN:
            self._patience = _PATIENCE[0]
            return plan
        self._declined += 1
        return plan if gain > _MARGIN * _SECOND_CHANCE and self._second_chance() else _PLAIN

    def _best(self, index: int, offer: Offer) -> tuple[float, DraftPlan]:
        """The most tokens that an offer promises in a plain call's time, and the length that gives them."""
        table, reach = self.costs.table, self._acceptance[offer.drafter, offer.confidence].reach
        plain, draft_ms = table[1], offer.draft_ms
        best, length = 0.0, 1
        for count in range(1, min(offer.longest, self.costs.trusted - 1) + 1):
            gain = (1.0 + reach[count]) * plain / (table[count + 1] + draft_ms * count)
            if gain > best:
                best, length = gain, count
        return best, DraftPlan(index, length)

    def _second_chance(self) -> bool:
        if self._declined < self._patience:
            return False
        self._declined, self._patience = 0, min(2 * self._patience, _PATIENCE[1])
        return True

    def plain(self, ms: float) -> None:
        """Record that a call of one token took ``ms``."""
        self._in_a_row = 0
        self.costs.observe(1, ms)
        self._budget.spend(1.0)

    def waited(self) -> None:
        """Record a call of one token that was not timed."""
        self._budget.spend(1.0)

    def planned_in_vain(self, ms: float) -> None:
        """Record that planning took ``ms`` and led to a plain call."""
        if self.costs.trusted:
            # Planning that takes longer than a call was interrupted.
            self._budget.settle(0, min(ms / self.costs.one, 1.0))

    def verified(self, offer: Offer, drafted: int, accepted: int, call_ms: float, draft_ms: float) -> None:
        """Record a verified draft.

        Args:
            offer: the chosen offer.
            drafted: number of tokens in the draft.
            accepted: how many of them, from the first on, were right.
            call_ms: time of the model's call and the choice of tokens.
            draft_ms: time of drafting and planning.
        """
        self._in_a_row += 1
        self.costs.observe(drafted + 1, call_ms)
        self.judged(offer, drafted, accepted)
        # A call that takes longer than its tokens one by one was interrupted, which is not the draft's fault.
        calls = min(call_ms / self.costs.one, drafted + 1) + draft_ms / self.costs.one
        self._budget.spend(calls)
        self._budget.settle(accepted + 1, calls)

    def judged(self, offer: Offer, drafted: int, accepted: int) -> None:
        """Record a draft that was compared with the text, with or without a call."""
        self._acceptance[offer.drafter, offer.confidence].observe(accepted, drafted)
