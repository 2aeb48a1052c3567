"""Ending a transport from another thread: an interruption reaches the main thread only, the work is done elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, RLock

from edgec.errors import InputError


class Stop:
    """Set once; from then on nothing begins, and what waits ends with E566."""

    def __init__(self) -> None:
        """Not set."""
        self._event, self._busy = Event(), RLock()

    def set(self) -> None:
        """Let whatever works on its behalf end."""
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def check(self, where: str) -> None:
        """Go on only where it is not set.

        Raises:
            InputError: E566.
        """
        if self:
            raise stopped(where)

    def pause(self, seconds: float, where: str) -> None:
        """Wait, at most until it is set.

        Raises:
            InputError: E566.
        """
        self._event.wait(seconds)
        self.check(where)

    @contextmanager
    def working(self, where: str) -> Iterator[None]:
        """What ``idle`` waits for.

        Raises:
            InputError: E566, it is set already.
        """
        with self._busy:
            self.check(where)
            yield

    @contextmanager
    def idle(self, limit_s: float) -> Iterator[None]:
        """Wait until no other thread is ``working``, ``limit_s`` at most; none begins meanwhile."""
        held = self._busy.acquire(timeout=limit_s)
        try:
            yield
        finally:
            if held:
                self._busy.release()


def stopped(where: str) -> InputError:
    """E566."""
    why = "the measurement was interrupted or closed"
    return InputError("The measurement was stopped.", where, why, "run the command again", "E566")
