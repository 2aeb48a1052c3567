from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.runtime_py.decoding.sampling import Sampler, Sampling
from edgec.runtime_py.decoding.stepper import Logits
from edgec.runtime_py.generation.generate import stream_tokens
from edgec.runtime_py.speculation.draft import Draft, Drafter, DraftLimits
from edgec.runtime_py.speculation.prompt_lookup import PromptLookup
from edgec.runtime_py.speculation.speculator import Speculator
from tests.example_counts import examples
from tests.runtime_py.fake_stepper import FakeStepper, ring_state, sums
from tests.runtime_py.speculation.simulated import Clock, Guesser, TimedStepper

GREEDY = Sampling()


def cycle(tokens: Sequence[int]) -> int:
    return (tokens[-1] + 1) % 5 + 10


class NoisyStepper(FakeStepper):
    """All tokens have a chance, by the sum of the tokens before: sampling is put to the test."""

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        super().forward(tokens, start, rows)
        seeds = [sums(self.cache.tokens[: start + row + 1]) for row in rows]
        return np.stack([np.random.default_rng(seed).normal(0, 2, 64).astype(np.float32) for seed in seeds])


def speculator(stepper: FakeStepper, *drafters: Drafter, states: Sequence[Any] = (), **options: Any) -> Speculator:
    return Speculator(drafters, DraftLimits.of(stepper.limits, states), **options)


def plain(stepper: FakeStepper, prompt: Sequence[int], sampling: Sampling, count: int) -> list[int]:
    return list(islice(stream_tokens(stepper, prompt, Sampler(sampling)), count))


def drafted(
    stepper: FakeStepper,
    drafter: Drafter,
    prompt: Sequence[int],
    sampling: Sampling,
    count: int,
    states: Sequence[Any] = (),
) -> tuple[list[int], Speculator]:
    """With a controller that finds calls of any size equally dear: it drafts whenever it may."""
    clock = Clock()
    with_time = _Ticking(stepper, clock)
    one = speculator(stepper, drafter, states=states, clock=clock)
    return list(islice(one.tokens(with_time, prompt, sampling, count), count)), one


class _Ticking:
    """A stepper whose calls take one second."""

    def __init__(self, stepper: FakeStepper, clock: Clock) -> None:
        self._stepper, self._clock = stepper, clock
        self.limits, self.prefill, self.reusable = stepper.limits, stepper.prefill, stepper.reusable

    def forward(self, tokens: Sequence[int], start: int, rows: Sequence[int]) -> Logits:
        self._clock.now += 1.0
        return self._stepper.forward(tokens, start, rows)


SAMPLINGS = st.sampled_from(
    [
        GREEDY,
        Sampling(repetition_penalty=1.3),
        Sampling(temperature=0.8, seed=3),
        Sampling(temperature=1.4, top_k=9, top_p=0.9, min_p=0.02, repetition_penalty=1.2, seed=8),
    ]
)


@settings(max_examples=examples(150), deadline=None)
@given(
    prompt=st.lists(st.integers(0, 63), min_size=1, max_size=30),
    hits=st.sampled_from([0.0, 0.6, 0.9, 1.0]),
    sampling=SAMPLINGS,
    ring=st.sampled_from([None, (12, 5, 0), (15, 8, 0), (14, 5, 2)]),
    count=st.integers(1, 60),
)
def test_text_is_the_same_with_and_without_drafts(
    prompt: list[int], hits: float, sampling: Sampling, ring: tuple[int, int, int] | None, count: int
) -> None:
    """Also where rings forget, at the end of the context, and for any number of tokens."""
    states = [ring_state(*ring)] if ring else []
    make = lambda: NoisyStepper(sums, context=50, chunk=8, rows=8, states=states)  # noqa: E731
    rule = lambda seen: int(np.random.default_rng(sums(seen)).normal(0, 2, 64).argmax())  # noqa: E731
    got, one = drafted(make(), Guesser(rule, hits), prompt, sampling, count, states)  # type: ignore[no-untyped-call]
    assert got == plain(make(), prompt, sampling, count)  # type: ignore[no-untyped-call]
    if hits == 1.0 and sampling == GREEDY and count > 20 and len(prompt) < 20:
        assert one.counts.accepted > 0


def test_right_drafts_save_calls_and_are_counted() -> None:
    stepper = FakeStepper(cycle, context=200)
    got, one = drafted(stepper, PromptLookup(), [1, 10, 11, 12, 13, 14, 10, 11], GREEDY, 100)
    assert got == plain(FakeStepper(cycle, context=200), [1, 10, 11, 12, 13, 14, 10, 11], GREEDY, 100)
    counts = one.counts
    assert counts.calls == len(stepper.calls) - 1
    assert counts.accepted + counts.calls == 99
    assert counts.tokens_per_call is not None and counts.tokens_per_call > 5
    assert counts.acceptance is not None and counts.acceptance > 0.9


def test_drafts_do_not_reach_beyond_what_is_wanted() -> None:
    stepper = FakeStepper(cycle, context=200)
    drafted(stepper, PromptLookup(), [10, 11, 12, 13, 14, 10, 11], GREEDY, 40)
    assert len(stepper.cache.tokens) == 7 + 39


def test_nothing_runs_before_a_prompt_that_does_not_fit() -> None:
    stepper = FakeStepper(sums, context=12)
    for prompt, code in (([5] * 13, "E150"), ([], "E151")):
        with pytest.raises(InputError, match=code):
            next(speculator(stepper, PromptLookup()).tokens(stepper, prompt, GREEDY))
    assert stepper.calls == []


def test_a_cached_beginning_is_not_computed_again() -> None:
    stepper = FakeStepper(sums, context=64)
    prompt = list(range(3, 23))
    stepper.prefill(prompt, 0)
    stepper.calls.clear()
    one = speculator(stepper, PromptLookup())
    got = list(islice(one.tokens(stepper, [*prompt, 7], GREEDY, 5, cached=20), 5))
    assert stepper.calls[0] == (20, 1)
    assert got == plain(FakeStepper(sums, context=64), [*prompt, 7], GREEDY, 5)


def time_ratio(cost: Callable[[int], float], hits: float, tokens: int = 400, **options: Any) -> float:
    """Tokens/s with drafts over tokens/s without, on a simulated machine."""
    clock = Clock()
    stepper = TimedStepper(sums, clock, cost)
    one = speculator(stepper, Guesser(sums, hits, clock, **options), clock=clock)
    stream = one.tokens(stepper, [5, 6, 7], GREEDY, tokens)
    next(stream)
    started = clock.now
    assert len(list(islice(stream, tokens - 1))) == tokens - 1
    return (tokens - 1) * cost(1) / 1e3 / (clock.now - started)


FLAT: Callable[[int], float] = lambda n: 10 + 0.3 * (n - 1)  # noqa: E731
CLIFF: Callable[[int], float] = lambda n: 10 + 0.5 * n + (25 if n > 8 else 0)  # noqa: E731
STEEP: Callable[[int], float] = lambda n: 10.0 * n  # noqa: E731


@pytest.mark.parametrize(
    ("cost", "hits", "at_least"),
    [(FLAT, 1.0, 9.0), (FLAT, 0.8, 2.9), (FLAT, 0.5, 1.45), (CLIFF, 1.0, 4.5), (CLIFF, 0.8, 2.2)],
)
def test_drafts_that_pay_are_used(cost: Callable[[int], float], hits: float, at_least: float) -> None:
    """Bounds: nine tenths of what the best fixed length gives (0.75 for the cliff, which has to be found)."""
    assert time_ratio(cost, hits) >= at_least


@pytest.mark.long
@pytest.mark.parametrize("cost", [FLAT, CLIFF, STEEP])
@pytest.mark.parametrize("hits", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("tokens", [64, 128, 1000])
def test_drafts_never_cost_a_twentieth(cost: Callable[[int], float], hits: float, tokens: int) -> None:
    assert time_ratio(cost, hits, tokens) >= 0.95


@pytest.mark.parametrize("hits", [0.0, 0.3, 0.9])
def test_dear_drafts_never_cost_a_twentieth(hits: float) -> None:
    assert time_ratio(FLAT, hits, 300, ms=9.0, free=False) >= 0.95
    assert time_ratio(STEEP, hits, 300, ms=1.0, free=False) >= 0.95


def test_dear_drafts_that_pay_are_used() -> None:
    """A draft model at a tenth of the cost, right nine times of ten."""
    assert time_ratio(FLAT, 0.9, 600, ms=1.0, free=False) >= 2.2


def test_a_text_that_changes_is_followed() -> None:
    """Right drafts from the 500th token on: the drafts come back, and what they cost before stays small."""
    clock, guesser = Clock(), None
    stepper = TimedStepper(sums, clock, FLAT)
    guesser = Guesser(sums, 0.0, clock)
    stream = speculator(stepper, guesser, clock=clock).tokens(stepper, [5, 6, 7], GREEDY, 1000)
    assert len(list(islice(stream, 500))) == 500
    lost = clock.now * 1e3 / (500 * FLAT(1))
    assert lost < 1.04
    guesser.hits, started = 1.0, clock.now
    assert len(list(islice(stream, 500))) == 500
    assert 500 * FLAT(1) / 1e3 / (clock.now - started) > 4


def test_what_was_learned_serves_the_next_text() -> None:
    clock = Clock()
    stepper = TimedStepper(cycle, clock, FLAT)
    one = speculator(stepper, PromptLookup(), clock=clock)
    calls = []
    for _ in range(2):
        list(islice(one.tokens(stepper, [10, 11, 12, 13, 14, 10, 11], GREEDY, 60), 60))
        calls.append(one.counts.calls)
    assert calls[1] < calls[0]


class Unsure:
    """Has an idea only now and then."""

    name, free = "unsure", True

    def begin(self, prompt: Sequence[int], sampling: Sampling) -> None:
        self.begun = len(prompt)

    def propose(self, history: Sequence[int], count: int) -> Draft | None:
        return Draft((sums(history),)) if len(history) % 3 == 0 else None


def test_steps_without_an_idea_are_plain_calls() -> None:
    stepper = FakeStepper(sums, context=64)
    got, one = drafted(stepper, Unsure(), [5, 6, 7], GREEDY, 40)
    assert got == plain(FakeStepper(sums, context=64), [5, 6, 7], GREEDY, 40)
    assert 0 < one.counts.drafted < one.counts.calls


@pytest.mark.parametrize(
    ("limits", "states", "position", "wanted", "longest"),
    [
        ((64, 8, 16), [], 10, None, 7),
        ((64, 32, 16), [], 10, None, 15),
        ((64, 32, 16), [], 60, None, 3),
        ((64, 32, 16), [], 63, None, 0),
        ((64, 32, 16), [], 10, 4, 3),
        ((64, 32, 16), [], 10, 1, 0),
        ((64, 32, 16), [ring_state(12, 8)], 10, None, 4),
        ((64, 32, 1), [], 10, None, 0),
    ],
)
def test_the_longest_draft(
    limits: tuple[int, int, int], states: list[Any], position: int, wanted: int | None, longest: int
) -> None:
    context, chunk, rows = limits
    fake = FakeStepper(sums, context=context, chunk=chunk, rows=rows)
    assert DraftLimits.of(fake.limits, states).longest(position, wanted) == longest
