"""What comes before an answer's turn: a request's text becomes tokens, its schema or grammar is compiled.

Requests with a structure or tools may take seconds, and anybody can send them; so they have threads of their own, and
plain ones never wait for them. Each is stopped when its client goes, or when its time is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Any, Final, TypeVar

from starlette.requests import Request

from edgec.runtime_py.serve.bodies import ChatBody, GenerationBody
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.problems import out_of_time, slow_to_prepare, too_many
from edgec.runtime_py.serve.stopping import Gone
from edgec.runtime_py.structured.patience import while_wanted

_PLAIN_THREADS: Final = 4
_HELD_THREADS: Final = 2
MadeT = TypeVar("MadeT")


class Preparing:
    """The threads in which requests are prepared, in two lanes."""

    def __init__(self, limits: ServeLimits) -> None:
        """Prepare as many at once as the lanes have threads; others wait, as many as the limits let."""
        self._plain = _Lane(_PLAIN_THREADS, "edgec-plain", limits)
        self._held = _Lane(_HELD_THREADS, "edgec-held", limits)

    async def made(self, request: Request, body: GenerationBody | None, job: Callable[[], MadeT]) -> MadeT:
        """What ``job`` makes of a request's body, in a thread of the lane for such bodies; None: a plain one.

        Raises:
            RequestError: E637, it took too long; E638, too many wait.
            Gone: the client went.
        """
        lane = self._held if body is not None and is_held(body) else self._plain
        return await lane.made(request, job)


def is_held(body: GenerationBody) -> bool:
    """Whether an answer is to be held to something that the request brings."""
    if body.regex is not None or body.grammar is not None:
        return True
    if not isinstance(body, ChatBody):
        return False
    return bool(body.tools) or (body.response_format is not None and body.response_format.type != "text")


class _Lane:
    def __init__(self, threads: int, name: str, limits: ServeLimits) -> None:
        self._threads, self._limits = ThreadPoolExecutor(threads, name), limits
        self._most, self._count, self._turn = threads + limits.waiting, 0, Lock()

    async def made(self, request: Request, job: Callable[[], MadeT]) -> MadeT:
        if self._count >= self._most:
            raise too_many(self._limits.waiting)
        seconds, gone = self._limits.answer_seconds, Event()

        def run() -> MadeT:
            with while_wanted(self._check(gone)):
                return job()

        future = self._submitted(run)

        def stop() -> None:
            gone.set()
            future.cancel()

        watcher = asyncio.create_task(until_gone(request, stop))
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError as cause:
            raise out_of_time(seconds) from cause
        except asyncio.CancelledError as cause:
            task = asyncio.current_task()
            if not gone.is_set() or (task is not None and task.cancelling()):
                raise
            raise Gone from cause
        finally:
            stop()
            watcher.cancel()

    def _check(self, gone: Event) -> Callable[[], None]:
        """Raises once a request that is begun now is not wanted any more, or takes too long."""
        end = time.monotonic() + self._limits.prepare_seconds

        def check() -> None:
            if gone.is_set():
                raise Gone
            if time.monotonic() > end:
                raise slow_to_prepare(self._limits.prepare_seconds)

        check()
        return check

    def _submitted(self, run: Callable[[], MadeT]) -> Future[MadeT]:
        self._add(1)
        future = self._threads.submit(run)
        future.add_done_callback(lambda _: self._add(-1))
        return future

    def _add(self, change: int) -> None:
        with self._turn:
            self._count += change


async def until_gone(request: Request, stop: Callable[[], Any]) -> None:
    """Call ``stop`` as soon as a request's client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    stop()
