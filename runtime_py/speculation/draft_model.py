"""Drafts from a smaller model with the same vocabulary: another bundle, or the first layers of the same one.

Sampling draws from the small model's distribution under the same options and keeps it, so that verification can
correct for it (Leviathan et al. 2023, arXiv 2211.17192). Greedy decoding and sampling with a seed draft the likeliest
token: then a seed gives the same text whatever the drafts were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.runtime_py.decoding.sampling import Sampling, draw, probabilities, process_logits
from edgec.runtime_py.decoding.stepper import Logits, Stepper
from edgec.runtime_py.sessions.snapshots import Snapshots
from edgec.runtime_py.speculation.draft import Distribution, Draft, DraftLimits
from edgec.runtime_py.structured.rule import TokenRule


class DraftModel:
    """A model that decodes ahead of another.

    Attributes:
        name: the drafter's name in reports.
    """

    free = False

    def __init__(
        self,
        stepper: Stepper,
        limits: DraftLimits,
        name: str = "model",
        rng: np.random.Generator | None = None,
        snapshots: Snapshots | None = None,
    ) -> None:
        """Draft with a small model.

        Args:
            stepper: the small model; its KV cache is used by this drafter alone.
            limits: the limits of its calls and its cache.
            name: the drafter's name in reports.
            rng: draws the drafts; None for one from the system's entropy.
            snapshots: those of the small model, where it cannot take back tokens that it fed one by one.
        """
        self.name, self._snapshots = name, snapshots
        self._stepper, self._limits, self._rng = stepper, limits, rng or np.random.default_rng()
        self._sampling = Sampling()
        self._rule: TokenRule | None = None
        self._fed: list[int] = []
        self._agreed = 0

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        """Feed the prompt, except for the part that the KV cache holds and for its last token."""
        self._sampling = sampling
        self._fed, self._agreed = [], 0
        fits = 1 < len(prompt) <= self._stepper.limits.context
        known = self._recalled(prompt) if fits else 0
        if fits and known < len(prompt) - 1:
            self._stepper.prefill(prompt[known:-1], known)
        self._fed = list(prompt[:-1]) if fits else []
        self._agreed = len(self._fed)

    def obey(self, rule: TokenRule | None) -> None:
        """Draft by a rule; as in `Obedient`."""
        self._rule = rule

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        """Decode ahead of ``history``; None where the small model's context is full."""
        count = min(count, self._limits.longest(len(history) - 1))
        if count < 1:
            return None
        logits, seen = self._catch_up(history), list(history)
        likely: list[Distribution] = []
        rule = self._rule.fork() if self._rule is not None else None
        while True:
            seen.append(self._choose(logits, seen, likely, rule))
            if len(seen) == len(history) + count:
                break
            logits = self._stepper.forward((seen[-1],), len(seen) - 1, (0,))[0]
        self._fed, self._agreed = seen[:-1], len(history)
        return Draft(tuple(seen[len(history) :]), tuple(likely) or None)

    def _catch_up(self, history: Sequence[int]) -> Logits:
        """Feed the tokens chosen since the last draft; returns the logits [vocabulary] after ``history``."""
        known = self._recalled(history) if self._snapshots else self._followed(history)
        logits = self._stepper.prefill(history[known:], known)
        if self._snapshots:
            self._snapshots.keep()
        return logits

    def _recalled(self, tokens: Sequence[int]) -> int:
        return self._snapshots.recall(tokens) if self._snapshots else self._stepper.reusable(tokens)

    def _followed(self, history: Sequence[int]) -> int:
        """How many tokens of ``history`` were fed; as ``reusable``, without comparing the whole text at every step."""
        limit = min(len(self._fed), len(history) - 1)
        known = min(self._agreed, limit)
        while known < limit and self._fed[known] == history[known]:
            known += 1
        # An interrupted call leaves a record of what the small model's cache surely holds.
        self._fed, self._agreed = self._fed[:known], known
        return known

    def _choose(self, logits: Logits, seen: Sequence[int], likely: list[Distribution], rule: TokenRule | None) -> int:
        """Choose the next drafted token; where it is drawn, its distribution is added to ``likely``."""
        scores = process_logits(logits if rule is None else rule.mask(logits), seen, self._sampling)
        if self._sampling.temperature == 0 or self._sampling.seed is not None:
            token = int(scores.argmax())
        else:
            likely.append(probabilities(scores))
            token = draw(likely[-1], self._rng)
        return token if rule is None else rule.take(token)
