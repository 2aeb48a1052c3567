"""Drafts of the next tokens, and the protocol of drafters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgec.runtime_py.sampling import Sampling

Distribution = NDArray[np.float64]


@dataclass(frozen=True)
class Draft:
    """Tokens that may come next.

    Attributes:
        tokens: token ids, at least one.
        drawn_from: the distribution [vocabulary] that each token was drawn from; None when none was drawn, so that the
            drafter would guess the same again.
        confidence: the drafter's own class of how sure it is; acceptance is learned for each class separately.
    """

    tokens: tuple[int, ...]
    drawn_from: tuple[Distribution, ...] | None = None
    confidence: int = 0

    def first(self, count: int) -> Draft:
        """The draft cut to ``count`` tokens."""
        if count >= len(self.tokens):
            return self
        drawn_from = self.drawn_from and self.drawn_from[:count]
        return Draft(self.tokens[:count], drawn_from, self.confidence)


class Drafter(Protocol):
    """Makes drafts for one sequence at a time."""

    @property
    def name(self) -> str:
        """The drafter's name in reports."""

    @property
    def free(self) -> bool:
        """Whether a draft costs next to nothing: then one is made at every step, and judged even when not verified."""

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        """Start a new sequence after ``prompt``, whose tokens are chosen as ``sampling`` says."""

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        """Draft up to ``count`` tokens (at least 1) to follow ``history``; None where there is nothing to draft from.

        Args:
            history: the prompt and all tokens chosen so far; it only grows between two calls of ``begin``.
            count: the longest draft wanted.
        """
