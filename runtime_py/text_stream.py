"""Tokens to text, one at a time, without broken characters or lost spaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

PARTIAL = "\N{REPLACEMENT CHARACTER}"
CONTEXT_TOKENS = 8


class TextStream:
    """Incremental detokenisation.

    A few tokens before the new one are decoded with and without it and the difference is the new text. That keeps the
    space a SentencePiece decoder strips at the start of a text, and a character whose bytes are spread over several
    tokens appears when its last byte has come.
    """

    def __init__(self, decode: Callable[[list[int]], str], prompt: Sequence[int] = ()) -> None:
        """Begin behind ``prompt``, whose end decides whether a leading space belongs to the text."""
        self._decode = decode
        self._window = list(prompt[-CONTEXT_TOKENS:])
        self._shown = len(self._window)

    def push(self, token: int) -> str:
        """The text that ``token`` completes; empty while a character is incomplete."""
        self._window.append(token)
        text = self._pending()
        if text.endswith(PARTIAL):
            return ""
        if text:
            self._advance()
        return text

    def flush(self) -> str:
        """What an incomplete last character decodes to."""
        text = self._pending()
        self._advance()
        return text

    def _pending(self) -> str:
        return self._decode(self._window)[len(self._decode(self._window[: self._shown])) :]

    def _advance(self) -> None:
        fresh = len(self._window) - self._shown
        self._window = self._window[-max(CONTEXT_TOKENS, fresh) :]
        self._shown = len(self._window)
