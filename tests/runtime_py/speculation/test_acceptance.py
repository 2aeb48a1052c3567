from __future__ import annotations

import numpy as np
import pytest

from edgec.runtime_py.speculation.acceptance import Acceptance


def test_the_prior_halves_with_every_token() -> None:
    assert Acceptance(3).reach == [0.0, 0.5, 0.75, 0.875]


def test_many_observations_approach_the_truth() -> None:
    acceptance, rng = Acceptance(4), np.random.default_rng(0)
    rates = []
    for step in range(400):
        right = rng.random(4) < 0.8
        acceptance.observe(4 if right.all() else int(np.argmin(right)), 4)
        if step >= 100:
            rates.append(acceptance.reach)
    # Geometric: 0.8 + 0.64 + ...; averaged over 300 steps of an average over 24 observations.
    np.testing.assert_allclose(np.mean(rates, axis=0), [0, 0.8, 1.44, 1.952, 2.3616], rtol=0.08)


def test_a_place_never_reached_is_taken_to_be_like_the_one_before() -> None:
    acceptance = Acceptance(3)
    for _ in range(30):
        acceptance.observe(1, 1)
    steps = np.diff(acceptance.reach)
    assert steps[0] > 0.95 and steps[2] / steps[1] == pytest.approx(steps[0])


def test_what_was_wrong_says_nothing_about_what_lay_behind() -> None:
    acceptance = Acceptance(3)
    for _ in range(50):
        acceptance.observe(1, 3)
    first, second, third = np.diff(acceptance.reach)
    assert first > 0.95 and second < 0.1 and third <= second


def test_old_observations_fade() -> None:
    acceptance = Acceptance(1)
    for _ in range(500):
        acceptance.observe(1, 1)
    for _ in range(60):
        acceptance.observe(0, 1)
    assert acceptance.reach[1] < 0.15
