"""What a decoder says of a text that is given to it rather than chosen: logits of every position, log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgec.runtime_py.decoding.stepper import Logits, Stepper


def forced_rows(stepper: Stepper, tokens: Sequence[int], first: int = 0) -> Iterator[tuple[int, Logits]]:
    """The logits of every position from ``first`` on, piece by piece: (position, float32 [rows, vocabulary]).

    The KV cache holds the tokens before ``first`` already.
    """
    step = min(stepper.limits.prefill_chunk, stepper.limits.logit_rows)
    for start in range(first, len(tokens), step):
        piece = tokens[start : start + step]
        yield start, stepper.forward(piece, start, range(len(piece)))


def log_softmax(logits: Logits) -> NDArray[np.float64]:
    """Log-probabilities over the last axis of [rows, vocabulary], in float64."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def continuation_score(stepper: Stepper, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]:
    """Log-likelihood in nats of ``continuation`` after ``context``, and whether greedy decoding would give it.

    What does not fit into the model's context is cut off on the left. A prefix that the KV cache holds already (the
    question that several answers share) is not computed again.

    Args:
        stepper: the model.
        context: at least one token.
        continuation: at least one token.
    """
    tokens = [*context, *continuation][-(stepper.limits.context + 1) :]
    scored = min(len(continuation), len(tokens) - 1)
    fed, targets = tokens[:-1], np.asarray(tokens[len(tokens) - scored :])
    first = len(fed) - scored
    kept = stepper.reusable(fed[: first + 1])
    if kept < first:
        stepper.prefill(fed[kept:first], kept)
    rows = np.concatenate([log_softmax(logits) for _, logits in forced_rows(stepper, fed, first)])
    total = float(rows[np.arange(scored), targets].sum())
    return total, bool((rows.argmax(axis=1) == targets).all())
