"""A bundle whose requests are computed one after the other, in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

from edgec.runtime_py.model import Model
from edgec.runtime_py.serve.limits import ServeLimits
from edgec.runtime_py.serve.problems import out_of_time, too_many
from edgec.runtime_py.serve.stopping import WorkStop
from edgec.runtime_py.structured.patience import Check

DoneT = TypeVar("DoneT")


class HostedInTurns:
    """A loaded bundle with its thread.

    Attributes:
        name: by which requests name it.
        model: the loaded bundle.
        created: when it was loaded, seconds since 1970.
        path: where its requests go.
    """

    path: ClassVar[str]

    def __init__(self, model: Model, limits: ServeLimits) -> None:
        """Host a model that has a tokenizer.

        Raises:
            InputError: E158, it has none.
        """
        self.model, self.name, self.created = model, model.bundle.manifest.name, int(time.time())
        assert model.tokenizer is not None
        self._limits, self._waiting = limits, 0
        self._thread = ThreadPoolExecutor(1, "edgec-serve")

    @property
    def waiting(self) -> int:
        """Requests that are computed or wait for their turn."""
        return self._waiting

    async def done(self, job: Callable[[Check], DoneT], stopped: WorkStop) -> DoneT:
        """What ``job`` gives, in its turn; to be called in the server's loop.

        Args:
            job: asks its argument now and then, which raises where the result is not wanted any more.
            stopped: set where nobody waits any more.

        Raises:
            RequestError: E637, it took too long; E638, too many wait.
            Gone: ``stopped`` was set, or the error that it was ended with; else what ``job`` raises.
        """
        if self._waiting > self._limits.waiting:
            raise too_many(self._limits.waiting)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._computed, job, stopped)
        finally:
            self._waiting -= 1

    def _computed(self, job: Callable[[Check], DoneT], stopped: WorkStop) -> DoneT:
        deadline = time.monotonic() + self._limits.answer_seconds

        def check() -> None:
            stopped.check()
            if time.monotonic() > deadline:
                raise out_of_time(self._limits.answer_seconds)

        check()
        return job(check)

    def close(self) -> None:
        """Let the thread end once it has nothing to do; requests that wait are dropped."""
        self._thread.shutdown(wait=False, cancel_futures=True)
