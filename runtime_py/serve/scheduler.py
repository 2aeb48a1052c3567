"""Continuous batching: a thread that computes the next tokens of all running answers in one call of the model.

    answer 1 -> forward([t], 41)    -+                                   +-> logits of answer 1
    answer 2 -> forward([t], 7)     -+-> step(3 sessions, 66 tokens) ->  +-> logits of answer 2
    answer 3 -> forward(prompt 0:64) +   one call of the model           +-> answer 3 goes on with its prompt

Each answer is written by a thread of its own, which waits in ``forward``: sampling, structures, stop strings and
readers of messages know nothing of the others. A call takes one token of every answer that writes, and a chunk of the
prompts that are read, the earliest answer's first: nobody who writes waits for more than a chunk of somebody's prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Condition, Lock, Thread
from time import perf_counter
from typing import Any, Final, TypeVar

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.decoding.stepper import Logits, check_context, prefill_in_chunks
from edgec.runtime_py.sessions.session import Session
from edgec.runtime_py.sessions.step import SessionCall, step


class Closed(Exception):
    """The scheduler has ended."""


JobT = TypeVar("JobT")
_LEAST_PATIENCE_S: Final = 0.002


@dataclass(frozen=True, eq=False)
class Asked:
    """A call that an answer waits for.

    Attributes:
        order: the place of its answer in the order of their beginnings.
        call: what is to be computed.
        check: raises where the answer is not wanted any more.
        made: the logits, or what went wrong.
    """

    order: int
    call: SessionCall
    check: Callable[[], None]
    made: Future[Logits] = field(default_factory=Future)

    @property
    def adapter(self) -> str:
        """The digest of its session's adapter: only calls under the same one are computed together."""
        return self.call.session.cache.adapter


def next_calls(waiting: Sequence[Asked], limits: Limits, chunk: int) -> list[Asked]:
    """Choose what is computed in one call.

    Args:
        waiting: at least one, those first that have waited longest.
        limits: the most tokens and rows of a call.
        chunk: the most tokens of prompts, beyond the first part of a prompt; below ``limits.prefill_chunk``, so that
            there is always room for single tokens.

    Returns:
        A part of the earliest answer's prompt, all single tokens as far as they fit, and further parts of prompts; of
        those under the adapter of the one that has waited longest.
    """
    alike = [one for one in waiting if one.adapter == waiting[0].adapter]
    singles = [one for one in alike if len(one.call.tokens) == 1]
    prompts = sorted((one for one in alike if len(one.call.tokens) > 1), key=lambda one: one.order)
    chosen: list[Asked] = []
    tokens = rows = read = 0
    for one in (*prompts[:1], *singles, *prompts[1:]):
        new, wanted = len(one.call.tokens), len(one.call.rows)
        fits = tokens + new <= limits.prefill_chunk and rows + wanted <= limits.logit_rows
        if chosen and not (fits and (new == 1 or read + new <= chunk)):
            continue
        chosen.append(one)
        tokens, rows, read = tokens + new, rows + wanted, read + (new if new > 1 else 0)
    return chosen


class Scheduler:
    """The thread that calls the model for all sessions of one bundle."""

    def __init__(self, limits: Limits, chunk: int) -> None:
        """Start it.

        Args:
            limits: those of the bundle.
            chunk: the most tokens of prompts in a call.
        """
        self._limits, self._chunk = limits, chunk
        self._changed, self._model = Condition(), Lock()
        self._jobs: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._waiting: list[Asked] = []
        self._running = self._begun = 0
        self._closed = False
        self._ended, self._took = 0.0, 0.0
        self._thread = Thread(target=self._run, name="edgec-batch", daemon=True)
        self._thread.start()

    def begin(self) -> int:
        """Count one more answer that will ask for calls; returns its place in the order of beginnings."""
        with self._changed:
            self._running += 1
            self._begun += 1
            return self._begun

    def end(self) -> None:
        """Count one answer less."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def between(self, job: Callable[[], JobT]) -> JobT:
        """Do something between two calls of the model, while no session changes; returns or raises what ``job`` does.

        Raises:
            Closed: the scheduler has ended.
        """
        done: Future[JobT] = Future()
        with self._open():
            self._jobs.append((job, done))
            self._changed.notify_all()
        return done.result()

    def compute(self, asked: Asked) -> Logits:
        """Wait for a call's logits.

        Raises:
            InputError: as `step`; what ``check`` raises.
            Closed: the scheduler has ended.
        """
        asked.call.check()
        with self._open():
            # An answer that runs alone computes in its own thread: nobody has to be woken.
            alone = self._running == 1 and not (self._waiting or self._jobs) and self._model.acquire(blocking=False)
            if not alone:
                self._waiting.append(asked)
                # Between the first answer that waits and the last one there is nothing to decide.
                if len(self._waiting) == 1 or len(self._waiting) >= self._running:
                    self._changed.notify_all()
        if alone:
            try:
                compute_together([asked])
            finally:
                self._model.release()
        return asked.made.result()

    def close(self) -> None:
        """End the thread; calls that wait are cancelled."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                raise Closed
            yield

    def _run(self) -> None:
        while self._wait():
            with self._changed:
                jobs, self._jobs = self._jobs, []
                chosen = next_calls(self._waiting, self._limits, self._chunk) if self._waiting and not jobs else []
                self._waiting = [one for one in self._waiting if one not in chosen]
            with self._model:
                for job, done in jobs:
                    _fulfil(done, job)
                self._compute([one for one in chosen if _is_wanted(one)])
        with self._changed:
            for future in (*(one.made for one in self._waiting), *(done for _, done in self._jobs)):
                future.cancel()

    def _compute(self, wanted: Sequence[Asked]) -> None:
        if wanted:
            begun = perf_counter()
            compute_together(wanted)
            self._ended = perf_counter()
            self._took = self._ended - begun

    def _wait(self) -> bool:
        """Wait until there is something to do; False where the scheduler is closed.

        Answers that choose their tokens are waited for, so that all of them share a call: at most as long as the last
        call took, so that a slow one costs the others no more than half of their speed.
        """
        with self._changed:
            while not self._closed and not self._jobs:
                if not self._waiting:
                    self._changed.wait()
                    continue
                patience = self._ended + max(self._took, _LEAST_PATIENCE_S) - perf_counter()
                if len(self._waiting) >= self._running or patience <= 0:
                    break
                self._changed.wait(patience)
            return not self._closed


def compute_together(asked: Sequence[Asked]) -> None:
    """Compute some calls in one, and tell each its logits or its error."""
    calls = [one.call for one in asked]
    if not any(call.rows for call in calls):
        calls[0] = _with_a_row(calls[0])  # the model always gives some logits
    try:
        made = step(calls)
    except Exception as error:
        # Nothing says whose fault it was: each is computed alone, so that it harms nobody else.
        for one in asked:
            _fulfil(one.made, partial(_alone, one.call, error))
        return
    for one, logits in zip(asked, made, strict=True):
        one.made.set_result(logits)


def _with_a_row(call: SessionCall) -> SessionCall:
    return replace(call, rows=call.rows or (len(call.tokens) - 1,))


def _alone(call: SessionCall, failure: Exception) -> Logits:
    """The logits of a call that failed with others; the failure where its session cannot go back to before it."""
    if not call.session.cache.continues_at(call.start):
        raise failure
    return step([_with_a_row(call)])[0]


def _is_wanted(asked: Asked) -> bool:
    try:
        asked.check()
    except Exception as error:
        asked.made.set_exception(error)
        return False
    return True


def _fulfil(done: Future[JobT], job: Callable[[], JobT]) -> None:
    try:
        result = job()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(result)


class BatchedStepper:
    """One answer's session, whose calls are computed together with those of others."""

    def __init__(self, session: Session, scheduler: Scheduler, chunk: int, check: Callable[[], None]) -> None:
        """Ask ``scheduler`` for each call, with prompts in parts that end at multiples of ``chunk``."""
        self._session, self._scheduler, self._check = session, scheduler, check
        self._chunk = chunk
        self._order = scheduler.begin()

    @property
    def limits(self) -> Limits:
        """The context, tokens per call and rows of logits per call of the decoder."""
        return self._session.limits

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        """Feed ``tokens`` in the next call of the model and return the logits of ``rows``, which may be none."""
        self._check()
        call = SessionCall(self._session, tuple(tokens), start, tuple(rows))
        return self._scheduler.compute(Asked(self._order, call, self._check))

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        """Feed any number of tokens and return the last one's logits [vocabulary].

        Where the parts begin depends on positions alone, so that a prompt's bits do not depend on how much of it the
        cache held.

        Raises:
            InputError: E150, E151 as ``Session.prefill``.
        """
        if not tokens:
            return prefill_in_chunks(self, tokens, start)
        check_context(start + len(tokens), self.limits.context)
        place, end = start, start + len(tokens)
        while True:
            stop = min(end, (place // self._chunk + 1) * self._chunk)
            part = tokens[place - start : stop - start]
            logits = self.forward(part, place, (len(part) - 1,) if stop == end else ())
            place = stop
            if place == end:
                result: Logits = logits[0]
                return result

    def reusable(self, tokens: Sequence[int]) -> int:
        """How many leading ``tokens`` the KV cache holds and can continue from; fewer than all of them."""
        return self._session.reusable(tokens)

    def close(self) -> None:
        """Ask for nothing any more."""
        self._scheduler.end()
