"""Drafts of the next tokens, and the protocol of drafters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.sessions.cache_contents import CacheState, shortest_log, tightest_ring
from edgec.runtime_py.structured.rule import TokenRule

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


@runtime_checkable
class Obedient(Protocol):
    """A drafter that holds its own guesses to the rule of a structured text."""

    def obey(self, rule: TokenRule | None) -> None:
        """Draft by the rule of the text that begins; it moves on with the text. None for free text."""


@dataclass(frozen=True)
class DraftLimits:
    """The limits that a model's calls and its KV cache set for drafts.

    Attributes:
        context: number of positions.
        most: the most drafted tokens per call, whatever the position.
    """

    context: int
    most: int

    @classmethod
    def of(cls, limits: Limits, states: Sequence[CacheState] = ()) -> DraftLimits:
        """The limits of a model.

        A draft of k tokens is verified by one call of k + 1 tokens with k + 1 rows of logits. Where all k are wrong, k
        positions are rewound, which a ring allows up to its slack, and a recurrence up to the length of its log.
        """
        ring, log = tightest_ring(states), shortest_log(states)
        bounds = [min(limits.prefill_chunk, limits.logit_rows) - 1, log, ring.slack if ring else None]
        return cls(limits.context, min(bound for bound in bounds if bound is not None))

    def longest(self, position: int, wanted: int | None = None) -> int:
        """The longest draft after the token at ``position``; 0 for none.

        Args:
            position: position of the newest token, which is fed in the same call.
            wanted: tokens still to be generated; the call itself brings one more than the draft.
        """
        free = min(self.most, self.context - position - 1)
        return max(0, free if wanted is None else min(free, wanted - 1))
