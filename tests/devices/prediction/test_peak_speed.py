"""Speeds end where the machine does: no measurement lies beyond its bounds, and no forecast."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.devices.prediction.calibration import observations
from edgec.devices.prediction.estimate import Range
from edgec.devices.prediction.peak_speed import fastest_decode, fastest_prefill
from edgec.devices.targets import all_targets, load_target
from edgec.exporter.resolve.planned import Question, answer

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"


def test_nothing_was_measured_beyond_the_bounds() -> None:
    machines = {(each.phone, each.unit): each for each in all_targets()}
    for row in observations():
        work = row.workload
        if row.decode_tokens_per_s is not None:
            assert row.decode_tokens_per_s <= fastest_decode(work), row
        machine = machines.get((work.device, work.unit))
        bound = fastest_prefill(work, machine) if machine is not None else None
        if bound is not None and row.prefill_tokens_per_s is not None:
            assert row.prefill_tokens_per_s <= bound, row


def test_a_range_ends_at_a_bound() -> None:
    whole = Range(1, 2, 4, 0.8)
    assert whole.at_most(None) is whole and whole.at_most(4) is whole
    assert whole.at_most(3) == Range(1, 2, 3, 0.8) and whole.at_most(1.5) == Range(1, 1.5, 1.5, 0.8)


@pytest.mark.sweep(1)
@pytest.mark.long
@pytest.mark.parametrize("model", ["qwen3-0.6b", "qwen3-4b"])
def test_no_forecast_needs_more_than_the_memory_delivers(model: str) -> None:
    for target in (
        "iphone-se-3-cpu",
        "iphone-13-pro",
        "iphone-17-pro",
        "galaxy-s24-ultra",
        "galaxy-s24-ultra-gpu",
        "pixel-9",
    ):
        plan = answer(Question(str(ARCHITECTURES / f"{model}.json"), target)).plan
        decode, bandwidth = plan.speeds.decode_tokens_per_s, load_target(target).bandwidth_bytes_per_s
        if decode is not None and bandwidth is not None:
            # One in 10^9 for rounding.
            assert decode.high * plan.footprint.read_bytes <= bandwidth * (1 + 1e-9), target
