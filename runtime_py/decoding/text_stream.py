"""Tokens to text, one at a time, without broken characters or lost spaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

PARTIAL = "\N{REPLACEMENT CHARACTER}"
CONTEXT_TOKENS = 8


def streamed_text(decode: Callable[[list[int]], str], tokens: Sequence[int]) -> str:
    """What the first token decodes to, and what a stream shows of the others as they come."""
    first = list(tokens[:1])
    if not first:
        return ""
    stream = TextStream(decode, first)
    return decode(first) + "".join(map(stream.push, tokens[1:])) + stream.flush()


class TextStream:
    """Incremental detokenisation.

    A few tokens before the new one are decoded with and without it, and the difference is the new text. That keeps the
    space that a SentencePiece decoder strips at the start of a text, and a character whose bytes are spread over
    several tokens appears with its last byte.
    """

    def __init__(self, decode: Callable[[list[int]], str], prompt: Sequence[int] = ()) -> None:
        """Begin after ``prompt``, whose end decides whether a leading space belongs to the text."""
        self._decode = decode
        self._window = self._end_of(prompt)
        self._shown = len(self._window)
        self._advance()

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
        """Return the text of an incomplete last character."""
        text = self._pending()
        self._advance()
        return text

    def _end_of(self, prompt: Sequence[int]) -> list[int]:
        """The last tokens of a prompt, as many as decode without broken characters: a window begins among them."""
        count = 3 * CONTEXT_TOKENS
        while count < len(prompt) and PARTIAL in self._decode(list(prompt[-count:])):
            count *= 2
        return list(prompt[-count:])

    def _pending(self) -> str:
        return self._decode(self._window)[len(self._decode(self._window[: self._shown])) :]

    def _advance(self) -> None:
        """Forget all but a few tokens; a window that began inside a character would decode to something else."""
        whole, fresh = self._decode(self._window), len(self._window) - self._shown
        latest = max(len(self._window) - max(CONTEXT_TOKENS, fresh), 0)
        starts = range(latest, max(latest - CONTEXT_TOKENS, 0) - 1, -1)
        fitting = (start for start in starts if whole.endswith(self._decode(self._window[start:])))
        self._window = self._window[next(fitting, latest) :]
        self._shown = len(self._window)
