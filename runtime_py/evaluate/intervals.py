"""How far the figures of a text can be trusted: intervals by a bootstrap over blocks of neighbouring predictions.

Predictions next to each other share their context, so single ones would make the intervals too narrow; blocks of 32 are
drawn instead (Künsch 1989). Bundle and float model are drawn together, since both read the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

BLOCK, RESAMPLES = 32, 1000
CONFIDENCE = (2.5, 97.5)


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval; the bounds are None where the text has fewer than eight blocks."""

    value: float
    low: float | None
    high: float | None


def perplexity_interval(nll: NDArray[np.float64]) -> Interval:
    """The perplexity of predictions, given their negative log-likelihoods [N], nats, in the order of the text."""
    return _bootstrapped(nll)


def ratio_interval(nll: NDArray[np.float64], reference_nll: NDArray[np.float64]) -> Interval:
    """The bundle's perplexity over the float model's on the same predictions, both [N], nats."""
    return _bootstrapped(nll - reference_nll)


def _bootstrapped(values: NDArray[np.float64]) -> Interval:
    """``exp`` of the mean, and its percentile interval over blocks."""
    mean = float(np.exp(values.mean()))
    count = len(values) // BLOCK
    if count < 8:
        return Interval(mean, None, None)
    blocks = values[: count * BLOCK].reshape(count, BLOCK).mean(axis=1)
    drawn = np.random.default_rng(0).choice(blocks, (RESAMPLES, count)).mean(axis=1)
    low, high = np.percentile(drawn, CONFIDENCE)
    return Interval(mean, float(np.exp(low)), float(np.exp(high)))


def bits_per_byte(nll: NDArray[np.float64], text_bytes: int) -> float | None:
    """The loss per byte of text, which models with other tokenizers can be compared by; None without bytes."""
    return float(nll.sum()) / log(2) / text_bytes if text_bytes else None
