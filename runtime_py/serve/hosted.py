"""A bundle that is served: its answers, each computed in a thread, as many at once as it has sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from edgec.runtime_py.adapters.use import UsedAdapter
from edgec.runtime_py.answers.streams import Stream
from edgec.runtime_py.decoding.prompt_cache import PromptCache
from edgec.runtime_py.decoding.stepper import Stepper
from edgec.runtime_py.generation.generate import Generation, pieces
from edgec.runtime_py.messages.reader import TEXT, Piece
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.measures import AnswerMeasures
from edgec.runtime_py.serve.probabilities import ChosenToken, TokenTexts, rate_token
from edgec.runtime_py.serve.problems import out_of_time, too_many
from edgec.runtime_py.serve.slot_schedulers import SlotScheduler, slot_scheduler
from edgec.runtime_py.serve.stopping import Gone, WorkStop
from edgec.runtime_py.serve.wanted_answer import WantedAnswer
from edgec.runtime_py.structured.patience import while_wanted
from edgec.runtime_py.structured.rule import Vector


@dataclass(frozen=True)
class Written:
    """A piece of an answer, with the probabilities of tokens where they were asked for."""

    piece: Piece
    chosen: tuple[ChosenToken, ...] = ()


_END: Final = object()


class Answer:
    """One answer on its way: computed in a thread of the bundle's, read in the server's loop.

    Attributes:
        result: the whole, once the last piece was read.
    """

    def __init__(
        self,
        wanted: WantedAnswer,
        limits: ServeLimits,
        adapter: UsedAdapter | None = None,
        measures: AnswerMeasures | None = None,
    ) -> None:
        """Begin nothing yet."""
        self.wanted, self._adapter = wanted, adapter
        self.result: Generation | None = None
        self._limits, self._stopped, self._deadline = limits, WorkStop(), float("inf")
        self._measures, self._asked = measures or AnswerMeasures(), time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._chosen: list[ChosenToken] = []
        self.future: Future[None] | None = None

    def stop(self) -> None:
        """Stop before the next call of the model; whoever reads is told that it is over."""
        self.end(Gone())

    def end(self, error: Exception) -> None:
        """Stop likewise; whoever reads is told an error."""
        self._stopped.end(error)
        if self.future is not None:
            self.future.cancel()
        self._queue.put_nowait(error)

    def compute(self, model: Model, slots: SlotScheduler) -> None:
        """Compute the answer, in a thread of the bundle's; errors reach the reader, too."""
        self._deadline = time.monotonic() + self._limits.answer_seconds
        try:
            self._check()
            held = while_wanted(self._check)
            with held, slots.slot(self.wanted, self._check, self._adapter) as (stepper, prompt_cache):
                for count, written in enumerate(self._written(model, stepper, prompt_cache)):
                    if count == 0:
                        self._measures.begun(time.monotonic() - self._asked)
                    self._hand(written)
            self._hand(_END)
        except BaseException as error:  # the reader raises it
            self._hand(error)
        self._measures.ended(self.result)

    def _written(self, model: Model, stepper: Stepper, prompt_cache: PromptCache) -> Iterator[Written]:
        wanted = self.wanted
        watch = None if wanted.top_logprobs is None and not wanted.rated else self._watch
        made: Stream[Any, Generation] = Stream(
            pieces(
                stepper,
                wanted.prompt,
                wanted.request,
                model.decode,
                prompt_cache=prompt_cache,
                parser=wanted.parser,
                watch=watch,
            )
        )
        for each in made:
            piece = each if isinstance(each, Piece) else Piece(TEXT, each)
            chosen, self._chosen = tuple(self._chosen), []
            yield Written(piece, chosen if piece.kind == TEXT else ())
        self.result = made.result
        assert self.result is not None
        # Tokens that showed nothing, such as the beginning of a character; what ends a text is none of it.
        rest = tuple(one for one in self._chosen if wanted.rated or one.one.token not in wanted.request.eos)
        if rest and (self.result.text or not self.result.reasoning):
            yield Written(Piece(TEXT, ""), rest)

    def _watch(self, logits: Vector, token: int) -> None:
        self._chosen.append(rate_token(logits, token, self.wanted.top_logprobs or 0, self.wanted.rated))

    def _check(self) -> None:
        self._stopped.check()
        if time.monotonic() > self._deadline:
            raise out_of_time(self._limits.answer_seconds)

    def _hand(self, item: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody reads any more
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    async def read(self) -> AsyncIterator[Written]:
        """The pieces as they come; raises what the computation raised, `Gone` after ``stop``."""
        while (item := await self._queue.get()) is not _END:
            if isinstance(item, BaseException):
                raise item
            yield item


class Hosted:
    """A loaded bundle with its threads, one for each answer that is written at once.

    Attributes:
        name: by which requests name it.
        model: the loaded bundle.
        created: when it was loaded, seconds since 1970.
        texts: what its tokens write.
        slots: its sessions.
        adapters: those that requests may name, by their names.
        measures: what its answers were.
        path: where its requests go.
    """

    path = "/v1/chat/completions or /v1/completions"

    def __init__(self, model: Model, limits: ServeLimits, adapters: Mapping[str, UsedAdapter] | None = None) -> None:
        """Host a decoder, whose artifact all ``adapters`` belong to.

        Raises:
            InputError: E155, it is not a decoder; E158, it has no tokenizer; E645, its state exceeds the memory given.
        """
        self.model, self.name, self.created = model, model.bundle.manifest.name, int(time.time())
        assert model.session is not None
        self.adapters = dict(adapters or {})
        self.texts = TokenTexts(model.tokenizer, lambda: model.vocabulary.tokens)
        self._limits, self.slots = limits, slot_scheduler(model, limits)
        self._threads = ThreadPoolExecutor(self.slots.sessions, "edgec-serve")
        self._turn, self._waiting, self.measures = Lock(), 0, AnswerMeasures()

    @property
    def waiting(self) -> int:
        """Answers that are computed or wait for their turn."""
        return self._waiting

    def answer(self, wanted: WantedAnswer, adapter: UsedAdapter | None = None) -> Answer:
        """Put an answer in the queue, under one of the adapters or none; to be called in the server's loop.

        Raises:
            RequestError: E638, too many wait.
        """
        if self._waiting >= self._limits.waiting + self.slots.sessions:
            raise too_many(self._limits.waiting)
        answer = Answer(wanted, self._limits, adapter, self.measures)
        self._count(1)
        answer.future = self._threads.submit(answer.compute, self.model, self.slots)
        answer.future.add_done_callback(self._done)
        return answer

    def _done(self, _: Future[None]) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._turn:
            self._waiting += change

    def close(self) -> None:
        """Let the threads end once they have nothing to do; answers that wait are dropped."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.slots.close()
