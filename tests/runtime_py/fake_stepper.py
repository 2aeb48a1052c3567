"""A decoder in pure Python for tests of everything above the runtime: no weights, a few microseconds a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.bundle.entry_points import Limits, StateInfo
from edgec.errors import InputError
from edgec.runtime_py.decoding.stepper import Logits, prefill_in_chunks
from edgec.runtime_py.sessions.cache_contents import CacheContents

Rule = Callable[[Sequence[int]], int]


class FakeStepper:
    """Predicts ``rule(all tokens so far)`` with certainty, reading them back from its cache as a real model does."""

    def __init__(
        self,
        rule: Rule,
        *,
        vocab_size: int = 64,
        context: int = 64,
        chunk: int = 8,
        rows: int = 8,
        states: Sequence[StateInfo] = (),
    ) -> None:
        self.limits = Limits(context=context, prefill_chunk=chunk, logit_rows=rows)
        self.cache = CacheContents(states)
        self.calls: list[tuple[int, int]] = []
        self._rule, self._vocab_size = rule, vocab_size

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        if not self.cache.continues_at(start) or not 1 <= len(tokens) <= self.limits.prefill_chunk:
            raise InputError("outside the contract", code="E153")
        self.calls.append((start, len(tokens)))
        self.cache.write(start, tokens)
        logits = np.zeros((len(rows), self._vocab_size), dtype=np.float32)
        for i, row in enumerate(rows):
            logits[i, self._rule(self.cache.tokens[: start + row + 1]) % self._vocab_size] = 20.0
        return logits

    def prefill(self, tokens: Sequence[int], start: int) -> Logits:
        return prefill_in_chunks(self, tokens, start)

    def reusable(self, tokens: Sequence[int]) -> int:
        return self.cache.reusable(tokens)


def sums(tokens: Sequence[int]) -> int:
    """A rule that depends on every token, so that a wrong cache shows."""
    return sum((i + 1) * token for i, token in enumerate(tokens)) % 61 + 3


def ring_state(slots: int, window: int, sink_tokens: int = 0) -> StateInfo:
    shape = [1, slots, 1, 1]
    fields = {"name": "k", "layer": 0, "role": "key", "dtype": "float32", "shape": shape, "layout": "ring", "bytes": 4}
    return StateInfo.model_validate({**fields, "slots": slots, "window": window, "sink_tokens": sink_tokens})


def recurrent_states(log: int) -> list[StateInfo]:
    """A ring beside a recurrence that drops up to ``log`` tokens of a call again."""
    ring = ring_state(slots=14, window=8)
    fields = {"layout": "recurrent", "window": None}
    recurrence = ring.model_copy(update={**fields, "role": "recurrent_state", "slots": 1})
    return [ring, recurrence, ring.model_copy(update={**fields, "role": "recurrent_log", "slots": log})]
