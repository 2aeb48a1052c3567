"""What ends the work of a request: its client goes, or the server stops; the one who waits is told which."""

from __future__ import annotations

from threading import Event
from typing import Final, Protocol
from weakref import WeakSet

from edgec.runtime_py.serve.problems import RequestError, stopping


class Gone(Exception):
    """The client has gone; nobody waits for the rest."""


class WorkStop:
    """Whether a request's work is over; set by its watcher, asked by the thread that does it."""

    def __init__(self) -> None:
        """Begin unset."""
        self._event, self._why = Event(), list[Exception]()

    def set(self) -> None:
        """The client has gone."""
        self.end(Gone())

    def end(self, error: Exception) -> None:
        """End the work with an error that whoever waits is told; the first one counts."""
        if not self._event.is_set():
            self._why.append(error)
            self._event.set()

    def is_set(self) -> bool:
        """Whether it is over."""
        return self._event.is_set()

    def check(self) -> None:
        """Raise the error once it is over."""
        if self._event.is_set():
            raise self._why[0]


class EndableWork(Protocol):
    """Work that can be ended with an error."""

    def end(self, error: Exception) -> None:
        """End it; whoever waits is told the error."""


class Closing:
    """The work of all requests, which is ended when the server stops.

    Attributes:
        begun: the server stops: nothing new is begun.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._work: Final[WeakSet[EndableWork]] = WeakSet()
        self.begun = False

    def add(self, work: EndableWork) -> None:
        """Have some work ended with the server.

        Raises:
            RequestError: E896, the server stops already.
        """
        if self.begun:
            raise stopping()
        self._work.add(work)

    def end(self) -> None:
        """End everything with E896, and begin nothing more."""
        self.begun = True
        error: RequestError = stopping()
        for work in list(self._work):
            work.end(error)
