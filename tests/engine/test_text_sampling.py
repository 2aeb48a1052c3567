"""The text core's choice of tokens: those of Python's, seed for seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from tests.engine.text_library import NativeSampler
from tests.engine.vision_library import Refused

SEEDS = st.integers(0, 2**64 - 1)
OPTIONS = st.builds(
    Sampling,
    temperature=st.sampled_from([0, 0.3, 0.7, 1.0, 1.7, 1e-12, 1e12]),
    top_k=st.sampled_from([0, 1, 5, 40, 200]),
    top_p=st.sampled_from([0.1, 0.25, 0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.2, 1.0]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    presence_penalty=st.sampled_from([0.0, 0.5, -1.1]),
    frequency_penalty=st.sampled_from([0.0, 0.25, 2.0]),
    logit_bias=st.sampled_from([{}, {3: 4.5, 9: -100.0, 1_000_000: 1.0}]),
    seed=SEEDS,
)


def logits_of(random: np.random.Generator, size: int, kind: str) -> Any:
    """Logits [size]: of a normal distribution, with many ties, or of a few tokens."""
    logits = (random.standard_normal(size) * 3).astype(np.float32)
    if kind == "ties":
        logits = np.round(logits)
    if kind == "few":
        logits[random.random(size) < 0.9] = -np.inf
        logits[0] = 0
    return logits


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(OPTIONS, SEEDS, st.sampled_from([97, 3000]), st.sampled_from(["plain", "ties", "few"]))
def test_tokens_are_those_of_python(options: Sampling, seed: int, size: int, kind: str) -> None:
    random = np.random.default_rng(seed)
    seen = [int(token) for token in random.integers(0, size, 9)]
    mine, ours = Sampler(options), NativeSampler(options, seen)
    for _ in range(6):
        logits = logits_of(random, size, kind)
        np.testing.assert_array_equal(ours.scores(logits), mine.scores(logits, seen))
        token = mine(logits, seen)
        assert ours.choose(logits) == token
        seen.append(token)


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32, 2**64 - 1])
def test_a_seed_gives_the_draws_of_numpy(seed: int) -> None:
    """All tokens are equally likely, so that a token is the place of a draw."""
    size, sampler = 4096, NativeSampler(Sampling(1.0, seed=seed))
    flat, random = np.zeros(size, np.float32), np.random.default_rng(seed)
    assert [sampler.choose(flat) for _ in range(200)] == [int(random.random() * size) for _ in range(200)]


def test_large_vocabularies() -> None:
    random, options = np.random.default_rng(3), Sampling(0.8, top_p=0.95, seed=5)
    logits = [(random.standard_normal(151_936) * scale).astype(np.float32) for scale in (0.1, 1, 4, 12)]
    mine, ours = Sampler(options), NativeSampler(options)
    assert [mine(each, []) for each in logits * 3] == [ours.choose(each) for each in logits * 3]


def test_without_a_seed_draws_differ() -> None:
    flat = np.zeros(4096, np.float32)
    first, second = ([NativeSampler(Sampling(1.0)).choose(flat) for _ in range(8)] for _ in range(2))
    assert first != second


def test_a_token_that_was_forced_counts() -> None:
    sampler = NativeSampler(Sampling(presence_penalty=2.0))
    logits = np.array([1.0, 0.5], np.float32)
    sampler.take(0)
    assert sampler.choose(logits) == 1


@pytest.mark.parametrize(
    "bad",
    [
        *({"temperature": -1.0}, {"temperature": 1e-40}, {"temperature": float("nan")}, {"top_k": -1}, {"top_p": 0.0}),
        *({"min_p": 1.1}, {"repetition_penalty": 0.0}, {"presence_penalty": 2.1}, {"frequency_penalty": float("nan")}),
        {"logit_bias": {1: 101.0}},
    ],
    ids=str,
)
def test_options_outside_their_range_are_refused(bad: dict[str, Any]) -> None:
    options = replace(Sampling())
    for name, value in bad.items():
        object.__setattr__(options, name, value)
    with pytest.raises(Refused, match="out of its range"):
        NativeSampler(options)


@pytest.mark.parametrize("logits", [[], [np.nan, 1], [-np.inf, -np.inf], [1, np.inf]], ids=str)
def test_logits_that_are_no_distribution_fail(logits: list[float]) -> None:
    with pytest.raises(Refused):
        NativeSampler(Sampling(1.0)).choose(np.array(logits, np.float32))
