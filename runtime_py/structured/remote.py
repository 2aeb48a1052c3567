"""A structure that another process holds, and the texts that are held to it there."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from edgec.runtime_py.structured.vocabulary import Vocabulary
from edgec.runtime_py.structured.worker.processes import Worker

_Answer = tuple[dict[str, Any], bytes]


def _patient() -> None:
    """Wait: other texts are held by the same process, which is bounded by its own limits."""


class RemoteStructure:
    """A compiled structure in a process of its own.

    Attributes:
        vocabulary: what tokens write.
        grown_bytes: how much memory compiling it took.
    """

    def __init__(self, worker: Worker, vocabulary: Vocabulary, grammar: str, sought: Sequence[str]) -> None:
        """Compile a description in a fresh process.

        Raises:
            InputError: E614, it exceeds a limit.
        """
        self._worker, self.vocabulary = worker, vocabulary
        try:
            answer, _ = worker.ask({"do": "compile", "sought": list(sought)}, grammar.encode())
        except BaseException:
            worker.close()
            raise
        self.grown_bytes = int(answer["grown"])
        self._numbers, self._dropped = count(), deque[int]()

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self._worker.alive

    def begin(self, budget: int, *, closes: bool, masks: bool = True) -> RemoteText:
        """Begin a text of at most ``budget`` tokens.

        Args:
            budget: the most tokens.
            closes: near the end of the budget its tokens are replaced by those of a way to the end.
            masks: each step brings the mask of the next token.

        Raises:
            InputError: E614, the process has ended.
        """
        number = self.number()
        asked = {"do": "begin", "text": number, "budget": budget, "closes": closes, "masks": masks}
        return RemoteText(self, number, self.ask(asked), masks)

    def ask(self, message: Mapping[str, Any]) -> _Answer:
        """The process's answer about a text. Raises InputError E614."""
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        return self._worker.ask({**message, "drop": dropped} if dropped else message, waiting=_patient)

    def number(self) -> int:
        """A number for another text."""
        return next(self._numbers)

    def drop(self, number: int) -> None:
        """Forget a text at the next occasion; takes no lock."""
        self._dropped.append(number)


class RemoteText:
    """A text that another process holds, as `Text`; for one thread at a time."""

    def __init__(self, structure: RemoteStructure, number: int, state: _Answer, masks: bool) -> None:
        """Use the text of a number, whose state the process has told."""
        self._structure, self._number, self._masks = structure, number, masks
        self._set(state)
        weakref.finalize(self, structure.drop, number)

    def _set(self, state: _Answer) -> None:
        answer, self._mask = state
        self.accepting, self.stopped = bool(answer["accepting"]), bool(answer["stopped"])

    def packed(self) -> NDArray[np.uint32]:
        """One bit for each token that may come next, [words]. Raises InputError E614."""
        if not self._mask:
            self._mask = self._structure.ask({"do": "mask", "text": self._number})[1]
        return np.frombuffer(self._mask, "<u4")

    def take(self, token: int) -> int:
        """Take a token, or the next one of the way to the end where the budget runs out; returns the taken one."""
        state = self._structure.ask({"do": "take", "text": self._number, "token": int(token), "masks": self._masks})
        self._set(state)
        return int(state[0]["token"])

    def fitting(self, tokens: Sequence[int]) -> tuple[int, bool]:
        """How many leading tokens may come next, and whether the text is whole after all of them."""
        answer, _ = self._structure.ask({"do": "fit", "text": self._number, "tokens": [int(one) for one in tokens]})
        return int(answer["count"]), bool(answer["whole"])

    def fork(self) -> Self:
        """A copy at the same place to draft with, which is never closed."""
        number = self._structure.number()
        state = self._structure.ask({"do": "fork", "text": self._number, "to": number, "masks": True})
        return type(self)(self._structure, number, state, True)
