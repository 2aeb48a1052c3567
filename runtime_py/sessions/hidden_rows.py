"""The hidden states of a text, kept for a predictor that goes on from them: they come with every call of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class HiddenRows:
    """The hidden state after each token that was fed, from position 0 on without a gap.

    Attributes:
        tokens: those whose hidden states are kept.
    """

    def __init__(self, context: int, width: int) -> None:
        """Keep up to ``context`` rows, 4 bytes a value; pages that no text reached take no memory."""
        self.tokens: list[int] = []
        self._rows = np.empty((context, width), np.float32)

    def write(self, start: int, tokens: Sequence[int], rows: NDArray[np.float32]) -> None:
        """Keep the rows [len(tokens), width] after ``tokens``, which were fed from position ``start`` on.

        After a gap, as a loaded KV cache leaves one, nothing is known any more until a text begins at 0.
        """
        if start > len(self.tokens):
            self.tokens = []
            return
        del self.tokens[start:]
        self.tokens.extend(tokens)
        self._rows[start : start + len(tokens)] = rows

    def rows(self, start: int, end: int) -> NDArray[np.float32]:
        """The rows of positions ``start`` to ``end`` - 1, [1, end - start, width], without a copy."""
        return self._rows[None, start:end]
