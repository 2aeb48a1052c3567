"""Whose turn it is on a session: one answer at a time, also while a text is streamed piece by piece."""

from __future__ import annotations

from threading import Lock, get_ident

from edgec.errors import InputError


class Turn:
    """A lock that other threads wait for, and that its own thread cannot take twice.

    A stream holds it between its pieces, and may be closed by another thread than the one that began it.
    """

    def __init__(self) -> None:
        self._lock, self._holder = Lock(), 0

    def __enter__(self) -> None:
        """Wait for other threads.

        Raises:
            InputError: E179, this thread has a stream open; waiting for it would never end.
        """
        if self._lock.locked() and self._holder == get_ident():
            raise InputError(
                "A text is still being streamed from this model.",
                where="stream",
                why="one session writes one text at a time",
                fix="finish or close() the stream first, or use model.new_session()",
                code="E179",
            )
        self._lock.acquire()
        self._holder = get_ident()

    def __exit__(self, *error: object) -> None:
        """Let the next one in."""
        self._holder = 0
        self._lock.release()
