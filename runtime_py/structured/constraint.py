"""One text held to a grammar: tokens that may not come are masked, and the text closes before its tokens run out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

import numpy as np

from edgec.runtime_py.engines.engine_structure import EngineText
from edgec.runtime_py.structured.closing import Closer
from edgec.runtime_py.structured.engine import Matcher
from edgec.runtime_py.structured.refusals import empty
from edgec.runtime_py.structured.rule import Vector

# Tokens between two looks at how far the end is; the text is watched where less than twice that and some room is left.
_EVERY: Final = 16
_SLACK: Final = 2
_ROOM: Final = 160
_FARTHEST: Final = 1024


class Constraint:
    """The rule of one text, as `TokenRule`.

    A way to the end is known whenever few tokens are left: a token after which no end is in reach is replaced by the
    next one of that way. A bundle's schema is closed as in an app instead: the engine masks such tokens.
    """

    def __init__(self, matcher: Matcher, closer: Closer | None, budget: int, held: EngineText | None = None) -> None:
        """Begin a text.

        Args:
            matcher: the grammar, at its beginning; it moves on with the text.
            closer: finds the end; None for a draft, which is never closed, and where the engine closes.
            budget: the most tokens of the text.
            held: the same text in the engine; None where the engine does not know its structure.
        """
        self._matcher, self._closer, self._left, self._held = matcher, closer, budget, held
        self._way: list[int] | None = None
        self._watched, self._looked, self._failed = 0, -_EVERY, -_EVERY
        self._closed = False
        self._whole = [matcher.accepting]
        self._end: int | None = None

    def mask(self, logits: Vector) -> Vector:
        """The logits [vocabulary] with -inf for each token that the structure does not allow next.

        Raises:
            InputError: E614, the text became too complex for the library; E615, nothing may follow and nothing ends it.
        """
        if self._held is not None and not self._closed and self._end is None:
            return self._held.mask(logits)
        vocabulary = self._matcher.vocabulary
        out = np.full_like(logits, -np.inf)
        if not self._closed and not self._matcher.stopped:
            allowed = np.flatnonzero(self._matcher.allowed()[: logits.shape[-1]])
            out[allowed] = logits[allowed]
        if self._closed or self._whole[-1]:
            ends = [token for token in vocabulary.eos if token < logits.shape[-1]]
            out[ends] = logits[ends]
        if not np.isfinite(out.max()):
            if not self._whole[-1]:
                raise empty("structured output", "the text came to a place that no token of the vocabulary continues")
            return logits
        return out

    def take(self, token: int) -> int:
        """Take a token that the structure allows, or the next one of the way to the end where budget runs out."""
        if self._closed or self._end is not None:
            return token
        token = self._affordable(token)
        self._left -= 1
        if self._held is not None:
            self._held.take(token)
        if token in self._matcher.vocabulary.eos:
            self._closed = True
            return token
        self._matcher.consume([token])
        self._whole.append(self._matcher.accepting)
        if self._matcher.stopped or (self._whole[-1] and not self._matcher.vocabulary.eos):
            self._end = len(self._whole) - 1
        return token

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a draft may come next; a token that ends the text fits where the text is whole."""
        ends = self._matcher.vocabulary.eos
        before = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
        count = self._matcher.count_fitting(tokens[:before]) if before and not self._closed else 0
        if before == len(tokens) or count < before:
            return count
        place = self._matcher.fork()
        place.consume(tokens[:before])
        return count + (1 if place.accepting else 0)

    def fork(self) -> Self:
        """A copy at the same place of the text to draft with, which never closes the text early."""
        copy = type(self)(self._matcher.fork(), None, self._left)
        copy._closed, copy._end = self._closed, None if self._end is None else 0
        return copy

    def is_whole(self, count: int) -> bool:
        """Whether the first ``count`` tokens are a whole text of the structure."""
        return count < len(self._whole) and self._whole[count]

    def ended(self, count: int) -> bool:
        """Whether nothing may follow the first ``count`` tokens."""
        return self._end is not None and count >= self._end

    def _affordable(self, token: int) -> int:
        """The token, or the next one of the way to the end where the token would leave too few for closing."""
        if self._closer is None or token in self._matcher.vocabulary.eos or not self._near(self._closer):
            return token
        way = self._way
        if way is None:
            return token
        if way and token == way[0]:
            self._way = way[1:]
            return token
        then = self._way_after(token, self._closer)
        if then is not None:
            self._way = then
            return token
        if way:
            self._way = way[1:]
            return way[0]
        return min(self._matcher.vocabulary.eos, default=token)

    def _way_after(self, token: int, closer: Closer) -> list[int] | None:
        """A way to the end after a token: the one before it where that still leads there, as within a string."""
        after = self._matcher.fork()
        after.consume([token])
        if self._way is not None and len(self._way) < self._left and after.count_fitting(self._way) == len(self._way):
            trial = after.fork()
            trial.consume(self._way)
            if trial.accepting:
                return self._way
        return closer.find_way_out(after, self._left - 1)

    def _near(self, closer: Closer) -> bool:
        """Whether so few tokens are left that the way to the end is kept; it is looked for now and then before."""
        place = len(self._whole) - 1
        if self._left > self._watched:
            self._way = None
            if place - self._looked >= _EVERY:
                self._looked, self._way = place, closer.find_way_out(self._matcher, min(self._left, _FARTHEST))
                self._watched = max(self._watched, _SLACK * len(self._way or ()) + _ROOM)
        if self._left > self._watched:
            self._way = None
            return False
        if self._way is None and place - self._failed >= _EVERY:
            self._way = closer.find_way_out(self._matcher, min(self._left, _FARTHEST))
            self._failed = self._failed if self._way is not None else place
        return True
