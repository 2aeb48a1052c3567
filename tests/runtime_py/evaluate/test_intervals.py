"""Intervals hold the truth as often as they claim, and are not given where there is too little text."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.runtime_py.evaluate.intervals import BLOCK, bits_per_byte, perplexity_interval, ratio_interval


def test_the_interval_holds_the_truth_about_19_times_in_20() -> None:
    # Neighbours depend on each other: each value repeats half of the one before it.
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):
        noise = rng.normal(size=64 * BLOCK)
        for index in range(1, len(noise)):
            noise[index] += 0.5 * noise[index - 1]
        interval = perplexity_interval(3.0 + noise)
        assert interval.low is not None and interval.high is not None
        held += interval.low <= np.exp(3.0) <= interval.high
    # 190 expected; a binomial of 200 at 95 % lies within 180 to 199 in 99.8 % of cases, block edges cost a little.
    assert 175 <= held <= 199


def test_the_ratio_is_paired() -> None:
    rng = np.random.default_rng(1)
    floats = 3.0 + rng.normal(size=32 * BLOCK)
    interval = ratio_interval(floats + 0.02, floats)
    assert interval.value == pytest.approx(np.exp(0.02))
    assert interval.low == pytest.approx(interval.high), "a constant distance has no spread, however noisy the text"


def test_short_texts_have_no_interval() -> None:
    interval = perplexity_interval(np.full(8 * BLOCK - 1, 1.0))
    assert (interval.low, interval.high) == (None, None) and interval.value == pytest.approx(np.e)


def test_bits_per_byte() -> None:
    assert bits_per_byte(np.full(10, np.log(2)), 20) == pytest.approx(0.5)
    assert bits_per_byte(np.ones(3), 0) is None
