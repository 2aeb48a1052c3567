"""Unverified drafts, compared with the text as it comes: acceptance is learned without a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from edgec.runtime_py.speculation.controller import Offer

# The most tokens of a draft that are compared.
_FOLLOWED: Final = 8


@dataclass(frozen=True)
class Judgement:
    """The judgement that of ``drafted`` tokens the first ``accepted`` were right."""

    offer: Offer
    drafted: int
    accepted: int


class Shadow:
    """The drafts being compared with the text, at most one per drafter."""

    def __init__(self) -> None:
        self._followed: dict[str, tuple[Offer, tuple[int, ...], int]] = {}

    def follow(self, offer: Offer, tokens: tuple[int, ...], start: int) -> None:
        """Follow a draft from position ``start`` on, unless one of this drafter is being followed."""
        self._followed.setdefault(offer.drafter, (offer, tokens[:_FOLLOWED], start))

    def drop(self, drafter: str) -> None:
        """Stop following a drafter's draft, because it is being verified."""
        self._followed.pop(drafter, None)

    def judge(self, history: Sequence[int]) -> Iterator[Judgement]:
        """Judge the drafts that ``history`` has decided, and stop following them."""
        for drafter, (offer, tokens, start) in list(self._followed.items()):
            came = history[start : start + len(tokens)]
            right = next((i for i, (a, b) in enumerate(zip(came, tokens, strict=False)) if a != b), len(came))
            if right < len(came) or right == len(tokens):
                del self._followed[drafter]
                yield Judgement(offer, len(tokens), right)
