"""What makes text of the tokens that a model chooses, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from edgec.runtime_py.decoding.stopping import StopText
from edgec.runtime_py.decoding.text_stream import TextStream


class Reader(Protocol):
    """Makes pieces of what the model writes; ``shown`` is the text that is meant for the reader."""

    shown: str

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""

    @property
    def stopped_by(self) -> str | None:
        """The stop string that has ended the text."""

    def push(self, token: int) -> None:
        """Read one more token."""

    def close(self) -> None:
        """Read what was held back, once nothing more comes."""

    def drain(self) -> Iterator[Any]:
        """The pieces that became certain since the last time."""


class PlainTextReader:
    """Reads text: the chain of detokeniser and stop filter, as `Reader`."""

    def __init__(self, stream: TextStream, stop: StopText) -> None:
        """Read what ``stream`` says up to a stop string."""
        self._stream, self._stop = stream, stop
        self._fresh: list[str] = []
        self.shown = ""

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._stop.hit is not None

    @property
    def stopped_by(self) -> str | None:
        """The stop string that has ended the text."""
        return self._stop.hit

    def push(self, token: int) -> None:
        """Read one more token, and keep what it makes certain of the text."""
        self._emit(self._stop.feed(self._stream.push(token)))

    def close(self) -> None:
        """Read what was held back as the possible beginning of a stop string, once nothing more comes."""
        if not self.stopped:
            self._emit(self._stop.feed(self._stream.flush()))
        if not self.stopped:
            self._emit(self._stop.flush())

    def _emit(self, piece: str) -> None:
        if piece:
            self.shown += piece
            self._fresh.append(piece)

    def drain(self) -> Iterator[str]:
        """Yield the pieces of text that became certain since the last time."""
        while self._fresh:
            yield self._fresh.pop(0)
