"""The roofline's regression: its physics, its shrinkage, and that a left-out device informs nothing about itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgec.devices.calibration import Observation, observations
from edgec.devices.held_out import calibrated, misses, nested_misses, range_width
from edgec.devices.roofline import NOISE, calibrate, predict, prior_covariance, roof
from edgec.devices.speed import calibrated_parameters, decode_tokens_per_s, prefill_tokens_per_s
from edgec.devices.workload import Workload

PHONE = Workload(
    unit="cpu",
    runtime="executorch",
    kernels="xnnpack",
    vendor="qualcomm",
    family="snapdragon",
    chip="snapdragon-8-gen-3",
    device="oneplus-12",
    model="a model",
    parameters=1e9,
    weight_bytes=0.6e9,
    bandwidth_bytes_per_s=76.8e9,
    core_hz=12.9e9,
    int8_matmul=True,
    gpu_cores=None,
)


def test_the_roof_of_decode_is_bandwidth_over_bytes_and_a_millisecond() -> None:
    work = replace(PHONE, weight_bytes=1e9, bandwidth_bytes_per_s=100e9)
    assert roof("decode", work) == pytest.approx(1 / (0.010 + 0.001))


def test_the_roof_of_prefill_halves_without_int8_matrix_instructions() -> None:
    assert roof("prefill", replace(PHONE, int8_matmul=False)) == pytest.approx(roof("prefill", PHONE) / 2)


def test_the_prior_is_a_covariance() -> None:
    works = [row.workload for row in observations() if row.workload.unit == "gpu"]
    prior = prior_covariance("decode", "gpu", works, works)
    assert np.array_equal(prior, prior.T)
    # Rounding of a 99 x 99 product: the smallest eigenvalue of a semidefinite matrix may be slightly negative.
    assert np.linalg.eigvalsh(prior)[0] > -1e-9


def test_many_equal_measurements_are_believed() -> None:
    speed = 20.0
    fit = calibrate("decode", [PHONE] * 50, [speed] * 50)
    mean, deviation = predict(fit, PHONE)
    # Fifty measurements against a prior of standard deviation 2: shrinkage is below a thousandth.
    assert math.exp(mean) == pytest.approx(speed, rel=1e-3)
    assert deviation == pytest.approx(NOISE, rel=0.05)


def test_an_unseen_chip_is_less_certain_than_a_seen_one() -> None:
    fit, _ = calibrated("decode", "cpu", observations())
    unseen = replace(PHONE, chip="new", device="new", vendor="new", family="new")
    assert predict(fit, unseen)[1] > 1.3 * predict(fit, PHONE)[1]


def test_more_bandwidth_and_fewer_bytes_are_faster() -> None:
    base = decode_tokens_per_s(PHONE).mid
    assert decode_tokens_per_s(replace(PHONE, bandwidth_bytes_per_s=2 * PHONE.bandwidth_bytes_per_s)).mid > base
    assert decode_tokens_per_s(replace(PHONE, parameters=0.5e9, weight_bytes=0.3e9)).mid > base


@pytest.mark.parametrize("unit", ["cpu", "gpu", "npu"])
def test_estimates_are_ranges_with_their_confidence(unit: str) -> None:
    for estimate in (decode_tokens_per_s(replace(PHONE, unit=unit)), prefill_tokens_per_s(replace(PHONE, unit=unit))):
        assert 0 < estimate.low < estimate.mid < estimate.high
        assert estimate.confidence == 0.8
        assert estimate.how == "estimated"


def test_the_calibrated_sizes_are_those_of_the_rows() -> None:
    low, high = calibrated_parameters("decode", "cpu")
    assert (low, high) == (0.135e9, 13.016e9)


@pytest.mark.parametrize("quantity", ["decode", "prefill"])
def test_the_closed_form_equals_refitting_without_the_chip(quantity: str) -> None:
    rows = observations()
    closed = [m for m in misses(quantity, rows) if m.observation.workload.chip == "a19-pro"]
    assert closed
    for miss in closed:
        work = miss.observation.workload
        others = [row for row in rows if row.workload.chip != work.chip]
        mean, deviation = predict(calibrated(quantity, work.unit, others)[0], work)
        observation = miss.observation
        measured = observation.decode_tokens_per_s if quantity == "decode" else observation.prefill_tokens_per_s
        # Two routes through inverses of matrices with a condition number near 1e5.
        assert miss.log_error == pytest.approx(math.log(measured or 0) - mean, abs=1e-6)
        assert miss.deviation == pytest.approx(deviation, abs=1e-6)


def _slower(row: Observation, chip: str) -> Observation:
    if row.workload.chip != chip or row.decode_tokens_per_s is None:
        return row
    return replace(row, decode_tokens_per_s=row.decode_tokens_per_s / 7)


def test_a_left_out_chip_informs_neither_its_prediction_nor_its_range() -> None:
    chip = "tensor-g5"
    rows = [row for row in observations() if row.workload.unit == "cpu"]
    before = [m for m in nested_misses("decode", rows) if m.observation.workload.chip == chip]
    spoilt = nested_misses("decode", [_slower(row, chip) for row in rows])
    after = [m for m in spoilt if m.observation.workload.chip == chip]
    for one, other in zip(before, after, strict=True):
        # Only the measurement moved: predictions agree up to rounding.
        assert other.log_error == pytest.approx(one.log_error - math.log(7), abs=1e-6)
        assert other.deviation == pytest.approx(one.deviation, abs=1e-9)
        assert other.width == pytest.approx(one.width, abs=1e-6)


def test_the_width_holds_four_fifths_of_the_chips() -> None:
    found = misses("decode", observations())
    width = range_width(found)
    phones = [miss for miss in found if not miss.observation.laptop]
    chips = [miss.observation.workload.chip for miss in phones]
    weighted = sum(
        (abs(m.log_error) <= width * m.deviation + 1e-12) / chips.count(m.observation.workload.chip) for m in phones
    )
    assert 0.8 <= weighted / len(set(chips)) < 0.9
