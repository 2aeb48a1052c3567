"""Ending a transport from another thread: Ctrl-C reaches the main thread only, while the work runs in another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, RLock

from edgec.errors import InputError


class Stop:
    """A flag that is set once; from then on no work begins, and every wait ends with E566."""

    def __init__(self) -> None:
        """Create the flag, not set."""
        self._event, self._busy = Event(), RLock()

    def set(self) -> None:
        """Set the flag, so that the work that checks it ends."""
        self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def check(self, where: str) -> None:
        """Return if the flag is not set.

        Raises:
            InputError: E566, it is set.
        """
        if self:
            raise stopped(where)

    def pause(self, seconds: float, where: str) -> None:
        """Wait ``seconds``, or until the flag is set.

        Raises:
            InputError: E566, it was set.
        """
        self._event.wait(seconds)
        self.check(where)

    @contextmanager
    def working(self, where: str) -> Iterator[None]:
        """Mark the work that ``idle`` waits for.

        Raises:
            InputError: E566, it is set already.
        """
        with self._busy:
            self.check(where)
            yield

    @contextmanager
    def idle(self, limit_s: float) -> Iterator[None]:
        """Wait ``limit_s`` at most until no other thread is ``working``; none begins inside the block."""
        held = self._busy.acquire(timeout=limit_s)
        try:
            yield
        finally:
            if held:
                self._busy.release()


def stopped(where: str) -> InputError:
    """E566: the measurement was stopped."""
    why = "the measurement was interrupted or closed"
    return InputError("The measurement was stopped.", where, why, "run the command again", "E566")
