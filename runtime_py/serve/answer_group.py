"""The answers of one request, written at the same time and read as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from edgec.runtime_py.generation.generate import Generation
from edgec.runtime_py.serve.hosted import Answer, Written
from edgec.runtime_py.serve.probabilities import ChosenToken

AnswerPart = tuple[int, Written | None]
"""The place of an answer, and a piece of it; None: it is whole."""


class AnswerGroup:
    """One or more answers, which end together where one of them fails."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        """Read answers that are on their way."""
        self._answers = tuple(answers)

    @staticmethod
    def begun(begin: Sequence[Callable[[], Answer]]) -> AnswerGroup:
        """Put every answer in its queue; those before one that finds no place are stopped."""
        answers: list[Answer] = []
        try:
            for each in begin:
                answers.append(each())
        except BaseException:
            AnswerGroup(answers).stop()
            raise
        return AnswerGroup(answers)

    def stop(self) -> None:
        """Stop all before the next call of the model."""
        for answer in self._answers:
            answer.stop()

    def end(self, error: Exception) -> None:
        """Stop all likewise; whoever reads is told an error."""
        for answer in self._answers:
            answer.end(error)

    def result(self, place: int) -> Generation:
        """A whole answer, once it was read."""
        made = self._answers[place].result
        assert made is not None
        return made

    @property
    def results(self) -> list[Generation]:
        """Every whole answer, once all were read."""
        return [self.result(place) for place in range(len(self._answers))]

    async def read(self) -> AsyncIterator[AnswerPart]:
        """The pieces of all answers as they come; raises what the first that fails raises, and stops the others."""
        if len(self._answers) == 1:
            async for written in self._answers[0].read():
                yield 0, written
            yield 0, None
            return
        queue: asyncio.Queue[AnswerPart | BaseException] = asyncio.Queue()
        readers = [asyncio.create_task(_hand(place, one, queue)) for place, one in enumerate(self._answers)]
        try:
            left = len(readers)
            while left:
                part = await queue.get()
                if isinstance(part, BaseException):
                    raise part
                left -= part[1] is None
                yield part
        finally:
            self.stop()
            for reader in readers:
                reader.cancel()
            for reader in readers:
                with suppress(asyncio.CancelledError):
                    await reader

    async def whole(self) -> list[list[ChosenToken]]:
        """Read all to their ends; returns the tokens of each whose probabilities were asked for."""
        chosen: list[list[ChosenToken]] = [[] for _ in self._answers]
        async for place, written in self.read():
            chosen[place] += written.chosen if written is not None else ()
        return chosen


async def _hand(place: int, answer: Answer, queue: asyncio.Queue[Any]) -> None:
    try:
        async for written in answer.read():
            queue.put_nowait((place, written))
        queue.put_nowait((place, None))
    except Exception as error:  # the reader of the group raises it
        queue.put_nowait(error)
