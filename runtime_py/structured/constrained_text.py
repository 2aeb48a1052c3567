"""One text on its way through a grammar: its place, and a way to the end whenever few tokens are left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from edgec.runtime_py.structured.closing import Closer
from edgec.runtime_py.structured.engine import Matcher

# Tokens between two looks at how far the end is; the text is watched where less than twice that and some room is left.
_EVERY: Final = 16
_SLACK: Final = 2
_ROOM: Final = 160
_FARTHEST: Final = 1024


class Text(Protocol):
    """A text that is held to a grammar, in this process or in another one."""

    @property
    def accepting(self) -> bool:
        """Whether the tokens so far are a whole text."""

    @property
    def stopped(self) -> bool:
        """Whether nothing may follow."""

    def packed(self) -> NDArray[np.uint32]:
        """One bit for each token that may come next, [words]; valid until the next call. Raises InputError E614."""

    def take(self, token: int) -> int:
        """Take a token, or the next one of the way to the end where the budget runs out; returns the taken one."""

    def fitting(self, tokens: Sequence[int]) -> tuple[int, bool]:
        """How many leading tokens may come next, and whether the text is whole after all of them."""

    def fork(self) -> Self:
        """A copy at the same place to draft with, which is never closed."""


class ConstrainedText:
    """A text beside its matcher, as `Text`.

    A token after which no end is in reach is replaced by the next one of the way that is known.

    Attributes:
        place: how many tokens were taken.
    """

    def __init__(self, matcher: Matcher, closer: Closer | None, budget: int) -> None:
        """Begin a text.

        Args:
            matcher: the grammar, at its beginning; it moves on with the text.
            closer: finds the end; None for a text that is never closed here.
            budget: the most tokens of the text.
        """
        self._matcher, self._closer, self._left = matcher, closer, budget
        self._way: list[int] | None = None
        self.place, self._watched, self._looked, self._failed = 0, 0, -_EVERY, -_EVERY

    @property
    def accepting(self) -> bool:
        """Whether the tokens so far are a whole text."""
        return self._matcher.accepting

    @property
    def stopped(self) -> bool:
        """Whether nothing may follow."""
        return self._matcher.stopped

    def packed(self) -> NDArray[np.uint32]:
        """One bit for each token that may come next, [words]. Raises InputError E614, the text became too complex."""
        return self._matcher.packed()

    def take(self, token: int) -> int:
        """Take a token, or the next one of the way to the end where the budget runs out; one that ends a text stays."""
        token = self._affordable(token)
        self._left -= 1
        if token not in self._matcher.vocabulary.eos:
            self._matcher.consume([token])
            self.place += 1
        return token

    def fitting(self, tokens: Sequence[int]) -> tuple[int, bool]:
        """How many leading tokens may come next, and whether the text is whole after all of them."""
        count = self._matcher.count_fitting(tokens) if tokens else 0
        if count < len(tokens):
            return count, False
        after = self._matcher.fork()
        after.consume(tokens)
        return count, after.accepting

    def fork(self) -> Self:
        """A copy at the same place to draft with, which is never closed."""
        copy = type(self)(self._matcher.fork(), None, self._left)
        copy.place = self.place
        return copy

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
        if self._left > self._watched:
            self._way = None
            if self.place - self._looked >= _EVERY:
                self._looked = self.place
                self._way = closer.find_way_out(self._matcher, min(self._left, _FARTHEST))
                self._watched = max(self._watched, _SLACK * len(self._way or ()) + _ROOM)
        if self._left > self._watched:
            self._way = None
            return False
        if self._way is None and self.place - self._failed >= _EVERY:
            self._way = closer.find_way_out(self._matcher, min(self._left, _FARTHEST))
            self._failed = self._failed if self._way is not None else self.place
        return True
