"""A bundle that is served: one session, whose answers are computed one after the other in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any, Final

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.generate import Generation, Memory, pieces
from edgec.runtime_py.messages.reader import TEXT, Piece
from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.probabilities import ChosenToken, TokenTexts, rate_token
from edgec.runtime_py.serve.problems import out_of_time, too_many
from edgec.runtime_py.serve.wanted_answer import WantedAnswer
from edgec.runtime_py.stepper import Logits, Stepper, prefill_in_chunks
from edgec.runtime_py.streams import Stream
from edgec.runtime_py.structured.rule import Vector


@dataclass(frozen=True)
class ServeLimits:
    """Limits of the server.

    Attributes:
        body_bytes: the largest body of a request.
        answer_seconds: the longest time for computing one answer, without the time it waits for its turn.
        waiting: requests of one bundle that may wait for their turn.
        body_seconds: the longest time in which a body arrives.
        send_seconds: the longest time that a client may leave one piece unread.
        connections: open connections, beyond which new ones are answered with 503.
    """

    body_bytes: int = 4 << 20
    answer_seconds: float = 600.0
    waiting: int = 64
    body_seconds: float = 30.0
    send_seconds: float = 60.0
    connections: int = 256


DEFAULT_LIMITS: Final = ServeLimits()


class Gone(Exception):
    """The client has gone; nobody waits for the rest."""


@dataclass(frozen=True)
class Written:
    """A piece of an answer, with the probabilities of tokens where they were asked for."""

    piece: Piece
    chosen: tuple[ChosenToken, ...] = ()


class WatchedStepper:
    """A decoder that asks before each call whether the answer is still wanted."""

    def __init__(self, stepper: Stepper, check: Callable[[], None]) -> None:
        """Ask ``check``, which raises where it is not."""
        self._stepper, self._check = stepper, check

    @property
    def limits(self) -> Limits:
        """The context, tokens per call and rows of logits per call of the decoder."""
        return self._stepper.limits

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Check whether the request still stands, then feed ``tokens`` and return the logits of ``rows``."""
        self._check()
        return self._stepper.forward(tokens, start, rows)

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens, with a check before each chunk, and return the last one's logits [vocabulary]."""
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""
        return self._stepper.reusable(tokens)


_END: Final = object()


class Answer:
    """One answer on its way: computed in the bundle's thread, read in the server's loop.

    Attributes:
        result: the whole, once the last piece was read.
    """

    def __init__(self, wanted: WantedAnswer, limits: ServeLimits) -> None:
        """Begin nothing yet."""
        self.wanted = wanted
        self.result: Generation | None = None
        self._limits, self._stopped, self._deadline = limits, Event(), float("inf")
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._chosen: list[ChosenToken] = []
        self.future: Future[None] | None = None

    def stop(self) -> None:
        """Stop before the next call of the model; whoever reads is told that it is over."""
        self._stopped.set()
        if self.future is not None:
            self.future.cancel()
        self._queue.put_nowait(Gone())

    def compute(self, model: Model, memory: Memory) -> None:
        """Compute the answer, in the bundle's thread; errors reach the reader, too."""
        self._deadline = time.monotonic() + self._limits.answer_seconds
        try:
            for written in self._written(model, memory):
                self._hand(written)
            self._hand(_END)
        except BaseException as error:  # the reader raises it
            self._hand(error)

    def _written(self, model: Model, memory: Memory) -> Iterator[Written]:
        wanted = self.wanted
        stepper = WatchedStepper(model.session, self._check)
        watch = None if wanted.top_logprobs is None else self._watch
        made: Stream[Any, Generation] = Stream(
            pieces(
                stepper, wanted.prompt, wanted.request, model.decode, memory=memory, manner=wanted.manner, watch=watch
            )
        )
        for each in made:
            piece = each if isinstance(each, Piece) else Piece(TEXT, each)
            chosen, self._chosen = tuple(self._chosen), []
            yield Written(piece, chosen if piece.kind == TEXT else ())
        self.result = made.result
        assert self.result is not None
        # Tokens that showed nothing, such as the beginning of a character; what ends a text is none of it.
        rest = tuple(one for one in self._chosen if one.one.token not in wanted.request.eos)
        if rest and (self.result.text or not self.result.reasoning):
            yield Written(Piece(TEXT, ""), rest)

    def _watch(self, logits: Vector, token: int) -> None:
        self._chosen.append(rate_token(logits, token, self.wanted.top_logprobs or 0))

    def _check(self) -> None:
        if self._stopped.is_set():
            raise Gone
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
    """A loaded bundle with its thread.

    Attributes:
        name: by which requests name it.
        model: the loaded bundle.
        created: when it was loaded, seconds since 1970.
        texts: what its tokens write.
    """

    def __init__(self, model: Model, limits: ServeLimits) -> None:
        """Host a decoder.

        Raises:
            InputError: E155, it is not a decoder; E158, it has no tokenizer.
        """
        self.model, self.name, self.created = model, model.bundle.manifest.name, int(time.time())
        assert model.session is not None
        self.texts = TokenTexts(model.tokenizer, lambda: model.vocabulary.tokens)
        self._limits, self._memory = limits, model.memory()
        self._thread = ThreadPoolExecutor(1, "edgec-serve")
        self._turn, self._waiting = Lock(), 0

    @property
    def waiting(self) -> int:
        """Answers that are computed or wait for their turn."""
        return self._waiting

    def answer(self, wanted: WantedAnswer) -> Answer:
        """Put an answer in the queue; to be called in the server's loop.

        Raises:
            RequestError: E638, too many wait.
        """
        if self._waiting > self._limits.waiting:
            raise too_many(self._limits.waiting)
        answer = Answer(wanted, self._limits)
        self._count(1)
        answer.future = self._thread.submit(answer.compute, self.model, self._memory)
        answer.future.add_done_callback(self._done)
        return answer

    def _done(self, _: Future[None]) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._turn:
            self._waiting += change

    def close(self) -> None:
        """Let the thread end once it has nothing to do; answers that wait are dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
