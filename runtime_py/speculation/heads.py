"""Drafts from heads inside the artifact: each guesses one token further ahead from the same hidden state.

Medusa (Cai et al. 2024, arXiv 2401.10774) with one chain of guesses: the artifact's second output ``draft_logits``
holds, for every row whose logits were requested, one row of logits per head. Head 1 guesses the token after the one
that the row's own logits choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.speculation.draft import Draft

# Leads of the first head's best token over the second best, in logits: they separate the classes of confidence.
_LEADS: Final = (0.5, 1.0, 2.0, 4.0)


class HeadSource(Protocol):
    """A decoder whose calls also give the heads' logits."""

    def head_logits(self, position: int) -> Logits | None:
        """The heads' logits for a position of the last call, float32 [heads, vocabulary]; None for any other."""


class HeadDrafts:
    """A drafter that takes the likeliest token of each head."""

    name: Final = "heads"
    free: Final = True

    def __init__(self, source: HeadSource) -> None:
        self._source = source

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        """Do nothing: the heads' logits come with the model's."""

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        """Draft one token per head; None where the last call did not compute the newest token's row."""
        logits = self._source.head_logits(len(history) - 2)
        if logits is None:
            return None
        tokens = tuple(int(token) for token in logits[:count].argmax(axis=-1))
        first, best = logits[0], tokens[0]
        lead = float(first[best] - max(_largest(first[:best]), _largest(first[best + 1 :])))
        return Draft(tokens, confidence=sum(lead >= least for least in _LEADS))


def _largest(logits: Logits) -> float:
    return float(logits.max()) if logits.size else -np.inf
