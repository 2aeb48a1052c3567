"""An index of where the end of a token sequence occurred before: hash chains over pairs of tokens, as in LZ77.

Adding a token costs one dictionary operation; a query follows the chain of earlier places with the same last two
tokens, newest first, and measures how far each agrees backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Agreement beyond this many tokens is not measured.
LONGEST: Final = 16
# The most earlier places that are compared, newest first.
_PLACES: Final = 16


@dataclass(frozen=True)
class Match:
    """An earlier place whose last ``length`` tokens are the sequence's last; what followed it begins at ``next``."""

    next: int
    length: int


class SuffixIndex:
    """An index that finds the longest earlier occurrence of a growing sequence's end."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._newest: dict[tuple[int, int], int] = {}
        self._before: list[int] = []

    def extend(self, history: Sequence[int]) -> None:
        """Add the tokens of ``history`` beyond those known; the known ones are not compared again."""
        tokens, newest, before = self._tokens, self._newest, self._before
        for token in history[len(tokens) :]:
            pair = (tokens[-1], token) if tokens else None
            tokens.append(token)
            before.append(newest.get(pair, -1) if pair else -1)
            if pair:
                newest[pair] = len(tokens) - 1

    def match(self) -> Match | None:
        """The longest earlier occurrence of the end, of at least two tokens; the newest among equals."""
        tokens = self._tokens
        if len(tokens) < 2:
            return None
        place, best = self._before[-1], None
        for _ in range(_PLACES):
            if place < 0:
                break
            length = self._agreement(place)
            if best is None or length > best.length:
                best = Match(place + 1, length)
            if length >= LONGEST:
                break
            place = self._before[place]
        return best

    def _agreement(self, place: int) -> int:
        """How many tokens up to ``place`` equal those up to the end; the first two are known to be equal."""
        tokens, end = self._tokens, len(self._tokens) - 1
        limit, length = min(LONGEST, place + 1), 2
        while length < limit and tokens[place - length] == tokens[end - length]:
            length += 1
        return length

    def following(self, match: Match, count: int) -> tuple[int, ...]:
        """The ``count`` tokens after a match; past the end the copy continues with itself, so that loops go on."""
        period = len(self._tokens) - match.next
        if period >= count:
            return tuple(self._tokens[match.next : match.next + count])
        return tuple(self._tokens[match.next + i % period] for i in range(count))
