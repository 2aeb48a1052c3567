"""One text held to a grammar: tokens that may not come are masked, and the text closes before its tokens run out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from edgec.runtime_py.engines.engine_structure import EngineText
from edgec.runtime_py.structured.constrained_text import Text
from edgec.runtime_py.structured.refusals import empty
from edgec.runtime_py.structured.rule import Vector
from edgec.runtime_py.structured.vocabulary import Vocabulary


class Constraint:
    """The rule of one text, as `TokenRule`.

    Near the end of its budget the text is closed, token by token. A bundle's schema is closed as in an app instead: the
    engine masks tokens after which no end is in reach.
    """

    def __init__(self, text: Text, vocabulary: Vocabulary, held: EngineText | None = None) -> None:
        """Begin a text.

        Args:
            text: the text at its beginning; it moves on with what is taken.
            vocabulary: what tokens write.
            held: the same text in the engine; None where the engine does not know its structure.
        """
        self._text, self._vocabulary, self._held = text, vocabulary, held
        self._closed = False
        self._whole = [text.accepting]
        self._end: int | None = None

    def mask(self, logits: Vector) -> Vector:
        """The logits [vocabulary] with -inf for each token that the structure does not allow next.

        Raises:
            InputError: E614, the text became too complex for the library; E615, nothing may follow and nothing ends it.
        """
        if self._held is not None and not self._closed and self._end is None:
            return self._held.mask(logits)
        out = np.full_like(logits, -np.inf)
        if not self._closed and not self._text.stopped:
            bits = np.unpackbits(self._text.packed().view(np.uint8), bitorder="little")
            allowed = np.flatnonzero(bits[: min(len(self._vocabulary.tokens), logits.shape[-1])])
            out[allowed] = logits[allowed]
        if self._closed or self._whole[-1]:
            ends = [token for token in self._vocabulary.eos if token < logits.shape[-1]]
            out[ends] = logits[ends]
        if not np.isfinite(out.max()):
            if not self._whole[-1]:
                raise empty("structured output", "the text came to a place that no token of the vocabulary continues")
            return logits
        return out

    def take(self, token: int) -> int:
        """Take a token that the structure allows, or the next one of the way to the end where budget runs out."""
        if self._closed or self._end is not None:
            return token
        token = token if token in self._vocabulary.eos else self._text.take(token)
        if self._held is not None:
            self._held.take(token)
        if token in self._vocabulary.eos:
            self._closed = True
            return token
        self._whole.append(self._text.accepting)
        if self._text.stopped or (self._whole[-1] and not self._vocabulary.eos):
            self._end = len(self._whole) - 1
        return token

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a draft may come next; a token that ends the text fits where the text is whole."""
        ends = self._vocabulary.eos
        before = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
        count, whole = (0, self._whole[-1]) if self._closed or not before else self._text.fitting(tokens[:before])
        return count + (1 if count == before < len(tokens) and whole else 0)

    def fork(self) -> Self:
        """A copy at the same place of the text to draft with, which never closes the text early."""
        copy = type(self)(self._text.fork(), self._vocabulary)
        copy._closed, copy._end = self._closed, None if self._end is None else 0
        return copy

    def is_whole(self, count: int) -> bool:
        """Whether the first ``count`` tokens are a whole text of the structure."""
        return count < len(self._whole) and self._whole[count]

    def ended(self, count: int) -> bool:
        """Whether nothing may follow the first ``count`` tokens."""
        return self._end is not None and count >= self._end
