"""Log-likelihood of a continuation, and text up to a stop: what task evaluation asks of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.runtime_py.evaluate.evaluate import forced_rows, log_softmax
from edgec.runtime_py.stepper import Stepper


def continuation_score(stepper: Stepper, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]:
    """Log-likelihood in nats of ``continuation`` behind ``context``, and whether greedy decoding would give it.

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
    kept = min(stepper.reusable(fed), first)
    if kept < first:
        stepper.prefill(fed[kept:first], kept)
    rows = np.concatenate([log_softmax(logits) for _, logits in forced_rows(stepper, fed, first)])
    total = float(rows[np.arange(scored), targets].sum())
    return total, bool((rows.argmax(axis=1) == targets).all())
