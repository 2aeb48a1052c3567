"""The longest allowed draft: by the call's limits, the context, the tokens still wanted, and a ring cache's slack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.bundle.manifest import Limits
from edgec.runtime_py.sessions.cache_contents import CacheState, tightest_ring


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
        positions are rewound, which a ring allows up to its slack.
        """
        ring = tightest_ring(states)
        most = min(limits.prefill_chunk, limits.logit_rows) - 1
        return cls(limits.context, most if ring is None else min(most, ring.slack))

    def longest(self, position: int, wanted: int | None = None) -> int:
        """The longest draft after the token at ``position``; 0 for none.

        Args:
            position: position of the newest token, which is fed in the same call.
            wanted: tokens still to be generated; the call itself brings one more than the draft.
        """
        free = min(self.most, self.context - position - 1)
        return max(0, free if wanted is None else min(free, wanted - 1))
