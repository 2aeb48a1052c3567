"""The roofline's regression: its physics, its shrinkage, and that a left-out device tells nothing about itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgec.devices.prediction.calibration import Observation, observations
from edgec.devices.prediction.held_out import Miss, calibrated, misses, nested_misses, range_width, step
from edgec.devices.prediction.roof import LAYER_S, MATRIX_UNIT_SPEEDUP, roof
from edgec.devices.prediction.roofline import SPREADS, calibrate, predict, prior_covariance, rounding_variance
from edgec.devices.prediction.speed import (
    calibrated_parameters,
    decode_tokens_per_s,
    prefill_tokens_per_s,
    reading_bytes_per_s,
)
from edgec.devices.prediction.workload import Workload

PHONE = Workload(
    unit="cpu",
    runtime="executorch",
    kernels="xnnpack",
    vendor="qualcomm",
    family="snapdragon",
    chip="snapdragon-8-gen-3",
    npu="V75",
    device="oneplus-12",
    driver="",
    laptop=False,
    model="a model",
    layers=16,
    parameters=1e9,
    prompt_parameters=0.8e9,
    weight_bytes=0.6e9,
    cache_bytes=0.0,
    attention_operations=0.0,
    tokens_at_once=128,
    bandwidth_bytes_per_s=76.8e9,
    core_hz=12.9e9,
    int8_matmul=True,
    gpu_cores=None,
    gpu_matrix_units=False,
)


def test_the_roof_of_decode_is_bytes_over_bandwidth_and_calls() -> None:
    work = replace(PHONE, weight_bytes=0.9e9, cache_bytes=0.1e9, bandwidth_bytes_per_s=100e9, layers=10)
    assert roof("decode", work) == pytest.approx(1 / (0.010 + 10 * LAYER_S["cpu"]))


def test_the_roof_of_prefill_is_operations_bytes_and_calls() -> None:
    work = replace(PHONE, core_hz=10e9, attention_operations=0.4e9, tokens_at_once=100, layers=10)
    operations = (2 * 0.8e9 + 0.4e9) / 1e12
    call = 0.6e9 * 0.8 / 76.8e9 + 10 * LAYER_S["cpu"]
    assert roof("prefill", work) == pytest.approx(1 / (operations + call / 100))


def test_without_int8_matrix_instructions_operations_take_twice_as_long() -> None:
    work = replace(PHONE, layers=0, weight_bytes=1.0)
    assert roof("prefill", replace(work, int8_matmul=False)) == pytest.approx(roof("prefill", work) / 2)


def test_no_memory_makes_an_npu_read_faster_than_its_port() -> None:
    npu = replace(PHONE, unit="npu")
    wide, wider = (replace(npu, bandwidth_bytes_per_s=rate) for rate in (136e9, 228e9))
    assert roof("decode", wide) == roof("decode", wider) > roof("decode", npu)


def test_matrix_units_speed_up_the_operations_of_a_gpu_alone() -> None:
    gpu = replace(PHONE, unit="gpu", gpu_cores=6, layers=0, weight_bytes=1.0)
    quick = replace(gpu, gpu_matrix_units=True)
    assert roof("prefill", quick) / roof("prefill", gpu) == pytest.approx(MATRIX_UNIT_SPEEDUP)
    assert roof("decode", quick) == roof("decode", gpu)


@pytest.mark.parametrize("unit", ["cpu", "gpu", "npu"])
def test_longer_prompts_and_fuller_caches_are_slower(unit: str) -> None:
    work = replace(PHONE, unit=unit)
    assert roof("prefill", replace(work, attention_operations=1e9)) < roof("prefill", work)
    assert roof("decode", replace(work, cache_bytes=1e8)) < roof("decode", work)


def test_the_cache_costs_more_than_weights_where_it_was_measured_to() -> None:
    """An A19 Pro's Neural Engine decoded Qwen3-4B at 26.3 tokens/s after 666 tokens and at 11.6 after 2,681."""
    engine = replace(PHONE, unit="npu", kernels="coreml", layers=36, weight_bytes=2.1e9, bandwidth_bytes_per_s=76.8e9)
    short, long = (roof("decode", replace(engine, cache_bytes=tokens * 147_456)) for tokens in (666, 2681))
    # The step between 1,024 and 4,096 slots is smoothed over: the measured ratio is 2.3.
    assert 1.5 < short / long < 2.3
    hexagon = replace(engine, kernels="qnn")
    assert roof("decode", replace(hexagon, cache_bytes=2681 * 147_456)) > long


def test_prompts_in_floats_take_longer_on_cpus() -> None:
    work = replace(PHONE, layers=0, tokens_at_once=10**9)
    floats = replace(work, weight_bytes=2.0 * work.parameters)
    # Llama 3.2 1B on a Snapdragon 8 Gen 3: 60.3 in BF16, 260.5 tokens/s in 4 bits.
    assert roof("prefill", work) / roof("prefill", floats) == pytest.approx(260.5 / 60.3, rel=0.05)


def test_an_npu_of_fewer_operations_is_slower() -> None:
    rates = [
        roof("prefill", replace(PHONE, unit="npu", layers=0, npu_ops_per_s=ops)) for ops in (1.1e13, 1.7e13, 3.5e13)
    ]
    # 35 TOPS are of 8-bit operations, half as many in float16.
    assert rates[0] < rates[1] < rates[2] < 1.1 * rates[1]


def test_a_speed_in_whole_tokens_says_less() -> None:
    # Uniform in half a token either way of two tokens/s.
    assert rounding_variance([2.0, 20.0], [1.0, 0.0]).tolist() == pytest.approx([0.25**2 / 3, 0.0])
    exact, rounded = (calibrate("decode", [PHONE] * 3, [2.0] * 3, [step] * 3) for step in (0.0, 1.0))
    assert predict(rounded, PHONE)[1] > predict(exact, PHONE)[1]


def test_accelerators_of_one_vendor_tell_nothing_of_anothers() -> None:
    rows = [row for row in observations() if row.workload.unit == "npu"]
    left_out = misses("decode", rows, "device")
    assert {miss.observation.workload.vendor for miss in left_out} == {"qualcomm"}  # of Apple's one phone was measured


def test_the_prior_is_a_covariance() -> None:
    works = [row.workload for row in observations() if row.workload.unit == "gpu"]
    prior = prior_covariance("decode", "gpu", works, works)
    assert np.array_equal(prior, prior.T)
    # Rounding of a large product: the smallest eigenvalue of a semidefinite matrix may be slightly negative.
    assert np.linalg.eigvalsh(prior)[0] > -1e-9


def test_many_equal_measurements_are_believed() -> None:
    speed = 20.0
    fit = calibrate("decode", [PHONE] * 50, [speed] * 50)
    mean, deviation = predict(fit, PHONE)
    # Fifty measurements against a prior of standard deviation 2: shrinkage is below a thousandth.
    assert math.exp(mean) == pytest.approx(speed, rel=1e-3)
    assert deviation == pytest.approx(SPREADS["decode", "cpu"].noise, rel=0.05)


def test_an_unseen_chip_is_less_certain_than_a_seen_one() -> None:
    fit, _ = calibrated("decode", "cpu", observations())
    unseen = replace(PHONE, chip="new", device="new", vendor="new", family="new", npu="new")
    assert predict(fit, unseen)[1] > 1.3 * predict(fit, PHONE)[1]


def test_more_bandwidth_and_fewer_bytes_are_faster() -> None:
    base = decode_tokens_per_s(PHONE).mid
    assert decode_tokens_per_s(replace(PHONE, bandwidth_bytes_per_s=2 * PHONE.bandwidth_bytes_per_s)).mid > base
    assert decode_tokens_per_s(replace(PHONE, parameters=0.5e9, weight_bytes=0.3e9)).mid > base


def test_what_a_chips_unit_was_seen_to_read() -> None:
    low, high = reading_bytes_per_s("snapdragon-x-elite", "npu")
    # A Llama of one billion parameters with float16 activations, and the largest models with integers.
    assert 0.05 < low / 136e9 < high / 136e9 < 0.4


@pytest.mark.parametrize("unit", ["cpu", "gpu", "npu"])
def test_estimates_are_ranges_with_their_confidence(unit: str) -> None:
    for estimate in (decode_tokens_per_s(replace(PHONE, unit=unit)), prefill_tokens_per_s(replace(PHONE, unit=unit))):
        assert 0 < estimate.low < estimate.mid < estimate.high
        assert estimate.confidence == 0.8
        assert estimate.how == "estimated"


def test_the_calibrated_sizes_are_those_of_the_rows() -> None:
    low, high = calibrated_parameters("decode", "cpu")
    # Those that a token reads of SmolLM-135M and of Llama 2 13B.
    assert (low, high) == (106_168_320 + 28_311_552, 12_687_769_600 + 163_921_920)


@pytest.mark.long
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
        rounded = rounding_variance([measured or 1.0], [step(observation, quantity)])[0]
        assert miss.deviation == pytest.approx(math.hypot(deviation, math.sqrt(rounded)), abs=1e-6)


def _slower(row: Observation, chip: str) -> Observation:
    if row.workload.chip != chip or row.decode_tokens_per_s is None:
        return row
    return replace(row, decode_tokens_per_s=row.decode_tokens_per_s / 7, decode_step=row.decode_step / 7)


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


def _miss(unit: str, laptop: bool, error: float) -> Miss:
    row = replace(observations()[0], workload=replace(PHONE, unit=unit, laptop=laptop))
    return Miss(row, error, error, 1.0)


def test_the_width_holds_more_than_four_fifths_of_the_misses_of_its_own_kind() -> None:
    past = [_miss("cpu", False, error) for error in range(1, 101)]
    assert range_width(past, PHONE) == 85
    wider = [*past, *(_miss("cpu", True, 1000.0) for _ in range(100))]
    # A hundred laptops count as five rows: 90 of 105 are 85 %.
    assert range_width(wider, PHONE) == 90
    assert range_width(wider, replace(PHONE, laptop=True)) == 1000


def test_a_unit_with_few_rows_leans_on_the_others() -> None:
    past = [_miss("npu", False, 1.0), _miss("npu", False, 1.1), *(_miss("gpu", False, 3.0) for _ in range(50))]
    assert range_width(past, replace(PHONE, unit="npu")) == 3.0
    many = [*(_miss("npu", False, 1.0) for _ in range(50)), *past]
    assert range_width(many, replace(PHONE, unit="npu")) == 1.0
