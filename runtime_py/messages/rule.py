"""Which tokens a message may hold: reasoning of a bounded length first, then what the answer is held to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from edgec.runtime_py.structured.rule import TokenRule, Vector

START: Final = "start"
THINK: Final = "think"
ANSWER: Final = "answer"


@dataclass(frozen=True)
class Markers:
    """The markers of reasoning as text and as tokens.

    Attributes:
        open: begins reasoning, as text.
        close: ends it, as text.
        open_ids: ``open`` as tokens.
        close_ids: ``close`` as tokens.
    """

    open: str
    close: str
    open_ids: tuple[int, ...]
    close_ids: tuple[int, ...]


class MessageRule:
    """The rule of one message, as `TokenRule`."""

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        markers: Markers | None,
        begin: Callable[[int, bool], TokenRule | None],
        tokens: int,
        *,
        phase: str = START,
        budget: int | None = None,
        structured: bool = False,
        eos: frozenset[int] = frozenset(),
    ) -> None:
        """Begin a message.

        Args:
            decode: token ids to text, markers included.
            markers: those of reasoning; None where the template has none.
            begin: begins the rule of an answer of at most so many tokens, after reasoning or not; None: it is free.
            tokens: the most tokens of the message.
            phase: ``think`` where the prompt has opened the reasoning, ``answer`` where it has closed it.
            budget: the most tokens of reasoning; None for any number.
            structured: the answer's rule is that of a text with a value, which is then whole with it.
            eos: tokens that may not end a message within its reasoning, since an answer has to come.
        """
        self._decode, self._markers, self._begin, self._left = decode, markers, begin, tokens
        self._budget, self._structured, self._eos = budget, structured, eos
        self._phase = ANSWER if markers is None else phase
        self._run: list[int] = []
        self._thought = self._taken = self._offset = 0
        self._forced: tuple[int, ...] = ()
        self._inner: TokenRule | None = None
        self._alive = True
        if self._phase == THINK:
            self._think()
        else:
            self._begin_inner(thought=False)

    def mask(self, logits: Vector) -> Vector:
        """The logits [vocabulary] with -inf for each token that may not come next in this part of the message."""
        if self._forced:
            return _only(logits, self._forced[:1])
        if self._phase == THINK:
            return _without(logits, self._eos)
        if self._inner is None:
            return logits
        if self._phase == ANSWER:
            return self._inner.mask(logits)
        out = self._inner.mask(logits) if self._alive else np.full_like(logits, -np.inf)
        for token in self._onward():
            out[token] = logits[token]
        return out

    def take(self, token: int) -> int:
        """Take a token, or the one that has to come now to close the reasoning or the answer; returns the taken one."""
        self._taken += 1
        self._left -= 1
        if self._forced:
            token, self._forced = self._forced[0], self._forced[1:]
            if not self._forced:
                self._answer()
            return token
        match self._phase:
            case "think":
                self._take_thought(token)
            case "start":
                token = self._take_first(token)
            case _:
                token = token if self._inner is None else self._inner.take(token)
        return token

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a draft may come next in the message, one after the other."""
        ahead = self.fork()
        for count, token in enumerate(tokens):
            if not ahead._fits(token) or ahead.take(token) != token:
                return count
        return len(tokens)

    def fork(self) -> Self:
        """A copy of the message's rule to draft with; its counts begin here."""
        other = copy(self)
        other._run = list(self._run)
        other._inner = None if self._inner is None else self._inner.fork()
        other._offset = other._taken = 0
        return other

    def is_whole(self, count: int) -> bool:
        """Whether the first ``count`` tokens are a whole message; free text and calls are not before they end."""
        return self._structured and self._inside(count) and self._rule.is_whole(count - self._offset)

    def ended(self, count: int) -> bool:
        """Whether nothing may follow the first ``count`` tokens of the message."""
        return self._inside(count) and self._rule.ended(count - self._offset)

    @property
    def _rule(self) -> TokenRule:
        assert self._inner is not None
        return self._inner

    def _inside(self, count: int) -> bool:
        """Whether the answer's rule knows the place after ``count`` tokens."""
        held = self._phase == ANSWER or (self._phase == START and self._alive)
        return held and self._inner is not None and count >= self._offset

    def _fits(self, token: int) -> bool:
        if self._forced:
            return token == self._forced[0]
        if self._phase == THINK:
            return token not in self._eos
        if self._inner is None:
            return True
        if self._phase == START and token in self._onward():
            return True
        return self._alive and self._inner.count_fitting([token]) == 1

    def _onward(self) -> tuple[int, ...]:
        """The token that continues the opening marker."""
        assert self._markers is not None
        count, path = len(self._run), self._markers.open_ids
        return path[count : count + 1] if tuple(self._run) == path[:count] else ()

    def _take_first(self, token: int) -> int:
        """Take a token before it is known whether the message begins with reasoning."""
        assert self._markers is not None
        fits = self._inner is None or (self._alive and (token not in self._onward() or self._allows(token)))
        if fits and self._inner is not None:
            token = self._inner.take(token)
        self._alive = fits
        self._run.append(token)
        text = self._decode(self._run).lstrip()
        if text.startswith(self._markers.open):
            self._think()
        elif not self._markers.open.startswith(text):
            self._phase, self._run = ANSWER, []
        elif not text:
            self._run = []
        return token

    def _allows(self, token: int) -> bool:
        return self._inner is not None and self._inner.count_fitting([token]) == 1

    def _take_thought(self, token: int) -> None:
        assert self._markers is not None
        self._thought += 1
        self._run = [*self._run, token][-len(self._markers.close) - 1 :]
        if self._markers.close in self._decode(self._run):
            self._answer()
        elif self._budget is not None and self._thought >= self._budget:
            self._forced = self._markers.close_ids

    def _think(self) -> None:
        self._phase, self._run, self._inner = THINK, [], None
        assert self._markers is not None
        if self._budget is not None and self._thought >= self._budget:
            self._forced = self._markers.close_ids

    def _answer(self) -> None:
        self._phase, self._run = ANSWER, []
        self._begin_inner(thought=True)

    def _begin_inner(self, *, thought: bool) -> None:
        self._inner, self._offset, self._alive = self._begin(max(self._left, 1), thought), self._taken, True


def _only(logits: Vector, tokens: Sequence[int]) -> Vector:
    """Logits of which some tokens' alone are left."""
    out = np.full_like(logits, -np.inf)
    out[list(tokens)] = np.maximum(logits[list(tokens)], np.finfo(np.float32).min)
    return out


def _without(logits: Vector, tokens: Collection[int]) -> Vector:
    """Logits of which some tokens' are left out."""
    if not tokens:
        return logits
    out = logits.copy()
    out[[token for token in tokens if token < logits.shape[-1]]] = -np.inf
    return out


class HeadedRule:
    """A rule with some tokens that must come before its text, as `TokenRule`."""

    def __init__(self, head: Sequence[int], begin: Callable[[int], TokenRule], tokens: int) -> None:
        """Begin with ``head``, then with the rule of a text of what is left of ``tokens``."""
        self._head, self._length = tuple(head), len(head)
        self._inner = begin(max(tokens - len(head), 1))

    def mask(self, logits: Vector) -> Vector:
        """The logits [vocabulary] with only the next token of the head, then as the text's own rule masks them."""
        return _only(logits, self._head[:1]) if self._head else self._inner.mask(logits)

    def take(self, token: int) -> int:
        """Take a token of the text, or whatever comes, the next token of the head; returns the taken one."""
        if not self._head:
            return self._inner.take(token)
        token, self._head = self._head[0], self._head[1:]
        return token

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a draft continue the head and then fit the text."""
        ahead = tuple(tokens[: len(self._head)])
        same = next((place for place, token in enumerate(ahead) if token != self._head[place]), len(ahead))
        if same < len(self._head):
            return same
        return same + self._inner.count_fitting(tokens[same:])

    def fork(self) -> Self:
        """A copy of the rule to draft with; its counts begin here."""
        other = copy(self)
        other._inner, other._length = self._inner.fork(), len(self._head)
        return other

    def is_whole(self, count: int) -> bool:
        """Whether the first ``count`` tokens are the head and a whole text."""
        return count >= self._length and self._inner.is_whole(count - self._length)

    def ended(self, count: int) -> bool:
        """Whether nothing may follow the head and the text within the first ``count`` tokens."""
        return count >= self._length and self._inner.ended(count - self._length)
