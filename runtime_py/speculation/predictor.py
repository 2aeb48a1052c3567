"""Drafts from a predictor inside the artifact: one further decoder layer that goes on from the model's hidden states.

    hidden state of token i, token i + 1 -> draft -> logits of token i + 2, hidden state for the guess after that

(Multi-token prediction, DeepSeek-V3, arXiv 2412.19437; EAGLE, arXiv 2401.15077.) Its cache has a place for every pair;
those of guesses are written again once the text has decided. A predictor of one layer is fed its own hidden states for
guesses after the first, as vLLM does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.decoding.sampling import Sampling, process_logits
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.engines.executor import Executor
from edgec.runtime_py.sessions.hidden_rows import HiddenRows
from edgec.runtime_py.speculation.draft import Draft
from edgec.runtime_py.structured.rule import TokenRule


class HiddenSource(Protocol):
    """A decoder that keeps the hidden states of its text."""

    @property
    def limits(self) -> Limits:
        """The context, and tokens per call."""

    @property
    def hidden(self) -> HiddenRows | None:
        """The hidden states of the text so far."""


class PredictorDrafts:
    """A drafter that calls the predictor once for every guess.

    It is silent where hidden states are missing: after a KV cache that was loaded from a file.
    """

    free = False

    def __init__(self, source: HiddenSource, draft: Executor, name: str) -> None:
        """Draft with a predictor.

        Args:
            source: the model that verifies.
            draft: the method draft, whose cache is used by this drafter alone.
            name: the drafter's name in reports.
        """
        self.name, self._source, self._draft = name, source, draft
        self._sampling = Sampling()
        self._rule: TokenRule | None = None
        self._known: HiddenRows | None = None
        self._text: list[int] = []

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        """Start a new sequence; its pairs are fed with the first draft."""
        self._sampling = sampling

    def obey(self, rule: TokenRule | None) -> None:
        """Draft by a rule; as in `Obedient`."""
        self._rule = rule

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        """Guess ``count`` tokens after ``history``; None where the hidden states of its tokens are not known."""
        last = len(history) - 1
        hidden = self._source.hidden
        if hidden is None or last < 1 or hidden.tokens[:last] != list(history[:last]):
            return None
        logits, row = self._catch_up(hidden, history)
        rule, seen = self._rule.fork() if self._rule is not None else None, list(history)
        for place in range(last, last + count):
            seen.append(self._choose(logits, seen, rule))
            if place + 1 < last + count:
                logits, row = self._fed(seen[-1:], place, row)
        return Draft(tuple(seen[len(history) :]))

    def _catch_up(self, hidden: HiddenRows, history: Sequence[int]) -> tuple[Logits, NDArray[np.float32]]:
        """Feed the pairs of a text that the cache does not hold, at least the last one."""
        known = self._followed(hidden, history)
        end, step = len(history) - 1, self._source.limits.prefill_chunk
        for start in range(known, end, step):
            stop = min(start + step, end)
            logits, row = self._fed(history[start + 1 : stop + 1], start, hidden.rows(start, stop))
        self._text = list(history)
        return logits, row

    def _followed(self, hidden: HiddenRows, history: Sequence[int]) -> int:
        """How many pairs of ``history`` the cache holds; fewer than all of them."""
        if hidden is not self._known:
            self._known, self._text = hidden, []
        same = next((i for i, (a, b) in enumerate(zip(self._text, history, strict=False)) if a != b), None)
        agreed = min(len(self._text), len(history)) if same is None else same
        # A call that is interrupted leaves a record of what the cache surely holds.
        self._text = self._text[:agreed]
        return max(0, min(agreed - 1, len(history) - 2))

    def _fed(
        self, tokens: Sequence[int], start: int, hidden: NDArray[np.float32]
    ) -> tuple[Logits, NDArray[np.float32]]:
        """Feed tokens with the hidden states before them; the last one's logits [V] and hidden state [1, 1, H]."""
        inputs = (
            np.array([tokens], np.int64),
            np.arange(start, start + len(tokens), dtype=np.int64),
            np.ascontiguousarray(hidden),
            np.array([len(tokens) - 1], np.int64),
        )
        logits, row = self._draft.run(inputs)
        return logits[0, -1].astype(np.float32, copy=False), row.astype(np.float32, copy=False)

    def _choose(self, logits: Logits, seen: Sequence[int], rule: TokenRule | None) -> int:
        """The likeliest token, as the sampler sees it; a guess that was not drawn needs no correction."""
        scores = process_logits(logits if rule is None else rule.mask(logits), seen, self._sampling)
        token = int(scores.argmax())
        return token if rule is None else rule.take(token)
