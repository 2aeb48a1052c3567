"""What generation needs of a structured text: which tokens may come next, and the value of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.floating]


class TokenRule(Protocol):
    """Says token by token what one text may hold; it moves on with each token that is taken."""

    def mask(self, logits: Vector) -> Vector:
        """The logits [vocabulary] with -inf for every token that may not come next; the argument stays as it is."""

    def take(self, token: int) -> int:
        """Take a token that ``mask`` allows, or another one where the text has to close now; returns the taken."""

    def count_fitting(self, tokens: Sequence[int]) -> int:
        """How many leading tokens of a draft may come next, one after the other."""

    def fork(self) -> Self:
        """A copy to draft with."""

    def is_whole(self, count: int) -> bool:
        """Whether the first ``count`` tokens are a whole text."""

    def ended(self, count: int) -> bool:
        """Whether nothing may follow the first ``count`` tokens."""


class Structure(Protocol):
    """The structure that a text is to have; it may serve many texts."""

    def begin(self, budget: int) -> TokenRule:
        """Begin a text of at most ``budget`` tokens."""

    def value(self, text: str) -> Any:
        """The value of a whole text."""
