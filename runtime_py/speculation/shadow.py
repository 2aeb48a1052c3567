"""Drafts that were made and not verified, compared with the text as it comes: acceptance learned for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from edgec.runtime_py.speculation.controller import Offer

# Tokens of a draft that are followed.
_FOLLOWED: Final = 8


@dataclass(frozen=True)
class Judgement:
    """Of a draft of ``drafted`` tokens the first ``accepted`` were right."""

    offer: Offer
    drafted: int
    accepted: int


class Shadow:
    """At most one draft per drafter."""

    def __init__(self) -> None:
        self._followed: dict[str, tuple[Offer, tuple[int, ...], int]] = {}

    def follow(self, offer: Offer, tokens: tuple[int, ...], start: int) -> None:
        """Watch for a draft of the tokens from position ``start`` on, unless one of this drafter is being followed."""
        self._followed.setdefault(offer.drafter, (offer, tokens[:_FOLLOWED], start))

    def drop(self, drafter: str) -> None:
        """Follow a drafter's draft no longer: it is being verified."""
        self._followed.pop(drafter, None)

    def judge(self, history: Sequence[int]) -> Iterator[Judgement]:
        """The drafts whose fate ``history`` has decided; they are not followed any more."""
        for drafter, (offer, tokens, start) in list(self._followed.items()):
            came = history[start : start + len(tokens)]
            right = next((i for i, (a, b) in enumerate(zip(came, tokens, strict=False)) if a != b), len(came))
            if right < len(came) or right == len(tokens):
                del self._followed[drafter]
                yield Judgement(offer, len(tokens), right)
