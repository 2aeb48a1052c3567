"""Stop strings, and how much of the text may be shown before one of them is ruled out."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import InputError


class StopText:
    """A filter between the model's text and the reader that lets no part of a stop string through.

    Text that could be the beginning of a stop string is held back until the next piece decides. The stop string that is
    complete first wins, so the result does not depend on how the text was cut into pieces.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """Filter for the stop strings.

        Raises:
            InputError: E156, a stop string is empty.
        """
        if "" in stops:
            raise InputError("A stop string is empty.", where="--stop", fix="give at least one character", code="E156")
        self._stops = tuple(stops)
        self._held = ""
        self.hit: str | None = None

    def feed(self, piece: str) -> str:
        """The text that is now safe to show; ``hit`` is set once a stop string is complete."""
        text = self._held + piece
        ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in self._stops if stop in text]
        if ends:
            end, _, self.hit = min(ends)
            self._held = ""
            return text[: end - len(self.hit)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """Return the text held back, once no more will come."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of ``text`` that ``stop`` begins with."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
