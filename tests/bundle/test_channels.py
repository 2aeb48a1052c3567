"""Channels of outputs: what varies by itself is judged beside its own spread, and what does not by its own size."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.bundle.channels import SMALLEST_HALF, shared_axes, value_sizes, worst_channel
from edgec.bundle.golden_function import function_vector

RANDOM = np.random.default_rng(0)
BOXES, SCORES = 640 * RANDOM.random((1, 64, 4)), RANDOM.random((1, 64, 1))
DETECTIONS = np.concatenate([BOXES, SCORES], -1)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_lost_channel_is_found_along_either_axis(axis: int) -> None:
    lost = DETECTIONS.copy()
    lost[..., 4] = 0.5
    one, other = (np.moveaxis(value, 2, axis) for value in (DETECTIONS, lost))
    worst = worst_channel(one, other, {0})
    assert (worst.axis, worst.index) == (axis, 4) and worst.share > 0.8


def test_rounding_to_float16_keeps_every_channel() -> None:
    # Half a unit in the last place of the largest value of a channel, beside a spread of about half of that value.
    assert worst_channel(DETECTIONS, DETECTIONS.astype(np.float16).astype(float), {0}).share < 2e-3


def test_what_float16_cannot_tell_apart_is_lost() -> None:
    values = 30000 + RANDOM.uniform(-5, 5, (1, 64))
    assert worst_channel(values, values.astype(np.float16).astype(float), {0}).share > 0.8
    assert worst_channel(values, values.astype(np.float32).astype(float), {0}).share < 1e-2


@pytest.mark.parametrize("constant", [0.0, 1.2345, 30000.0, 1e-9])
def test_a_constant_channel_is_judged_by_its_size(constant: float) -> None:
    values = np.concatenate([RANDOM.normal(size=(1, 64, 8)), np.full((1, 64, 1), constant)], -1)
    assert worst_channel(values, values.astype(np.float16).astype(float), {0}, SMALLEST_HALF).share < 2e-3


def test_a_constant_channel_that_is_lost_is_found() -> None:
    values = np.concatenate([BOXES, np.full((1, 64, 1), 0.5)], -1)
    lost = values.copy()
    lost[..., 4] = 0.0
    assert worst_channel(values, lost, {0}).share > 0.5


@pytest.mark.parametrize(
    "channel",
    [
        1 / (1 + np.exp(-RANDOM.uniform(9, 12, (1, 64, 1)))),  # pressed against 1
        RANDOM.uniform(1e-8, 1e-7, (1, 64, 1)),  # probabilities below what float16 holds
        1 + 1e-7 * RANDOM.normal(size=(1, 64, 1)),  # what sums in float32 leave of a constant
    ],
)
def test_what_says_nothing_in_float16_is_no_loss(channel: np.ndarray) -> None:
    values = np.concatenate([RANDOM.normal(size=(1, 64, 8)), channel], -1)
    assert worst_channel(values, values.astype(np.float16).astype(float), {0}, SMALLEST_HALF).share < 2e-3


def test_few_values_have_no_spread() -> None:
    near = np.array([[0.3, 0.30001]])
    assert worst_channel(near, near.astype(np.float16).astype(float), {0}).share < 1e-3


def test_values_that_both_hide_do_not_count() -> None:
    values = RANDOM.normal(size=(1, 16, 8))
    values[0, :, 3] = np.nan
    assert worst_channel(values, np.where(np.isnan(values), 0, values), {0}).share == 0


@pytest.mark.parametrize(
    ("shape", "inputs", "shared"),
    [
        ((1, 64, 5), [((1, 3, 32, 32), False)], {0}),
        ((1, 12, 48), [((1, 12), True), ((1, 12), True)], {0, 1}),
        ((1, 21, 32, 32), [((1, 3, 32, 32), False)], {0, 2, 3}),
        ((1, 32, 32), [((1, 3, 32, 32), False)], {0, 1, 2}),
        ((5, 32), [((3, 32), False)], set()),
        ((4, 32), [((4, 16), False)], {0}),
        ((), [], set()),
    ],
)
def test_axes_of_positions_are_those_of_the_inputs(
    shape: tuple[int, ...], inputs: list[tuple[tuple[int, ...], bool]], shared: set[int]
) -> None:
    assert shared_axes(shape, inputs) == shared


def test_a_value_has_the_size_of_its_smallest_channel() -> None:
    sizes = value_sizes(DETECTIONS, {0})
    assert sizes.shape == DETECTIONS.shape and sizes[..., 4].max() < 0.6 and sizes[..., :4].min() > 100


def test_golden_values_move_within_their_channel() -> None:
    vector = function_vector({}, {"output": DETECTIONS}, 0.03)
    score = [index % 5 == 4 for index in vector.indices["output"]]
    allowed = vector.allowed("output")
    assert any(score) and all(
        limit < 0.2 if is_score else limit > 10 for limit, is_score in zip(allowed, score, strict=True)
    )


def test_golden_integers_are_compared_as_they_are() -> None:
    classes = np.arange(64.0).reshape(1, 64) % 21
    vector = function_vector({}, {"classes": classes}, 0.03, counted=["classes"])
    assert vector.allowed("classes") == [0.5] * 8


def test_golden_values_lie_where_a_mask_left_numbers() -> None:
    masked = np.where(np.arange(64).reshape(1, 64) < 40, RANDOM.normal(size=(1, 64)), -np.inf)
    vector = function_vector({}, {"scores": masked})
    assert max(vector.indices["scores"]) < 40 and vector.tolerance < 1
    with pytest.raises(ValueError, match="finite"):
        function_vector({}, {"scores": np.full((1, 4), -np.inf)})


def test_what_float32_rounds_of_other_values_is_no_loss() -> None:
    # A channel that hardly varies, as in tiny random encoders: sums of terms near 1 end 5e-7 away.
    quiet = 0.0576 + 6e-7 * RANDOM.uniform(-1, 1, (1, 64, 1))
    values = np.concatenate([RANDOM.uniform(-1.3, 1.3, (1, 64, 31)), quiet], -1)
    assert worst_channel(values, values + 5e-7 * RANDOM.choice([-1, 1], values.shape), {0}).share < 0.01
    # A score that varies by a thousandth beside boxes is none of that.
    scores = np.concatenate([BOXES, 0.01 + 0.001 * RANDOM.uniform(-1, 1, (1, 64, 1))], -1)
    lost = np.where(np.arange(5) == 4, 0.01, scores)
    assert worst_channel(scores, lost, {0}).share > 0.3
