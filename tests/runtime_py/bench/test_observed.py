"""The plan learns from `edgec bench`: a phone's own speeds move its forecast; what teaches nothing is refused."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from edgec.devices.prediction.calibration import Observation, observations
from edgec.devices.prediction.held_out import calibrated, speed
from edgec.devices.prediction.roofline import predict
from edgec.errors import InputError
from edgec.exporter.resolve.planned import Planned, Question, answer
from edgec.runtime_py.bench.observed import observations_of
from edgec.runtime_py.bench.record import Comparability, RepetitionRecord, Subject, write_records

MODEL = Path(__file__).parents[3] / "benchmarks" / "architectures" / "qwen3-0.6b.json"
PHONE = "galaxy-s24-ultra-cpu"


def measured(file: Path, decode: float = 120.0, target: str = PHONE, **changes: Any) -> Path:
    """Three repetitions of a bundle of Qwen3-0.6B."""
    compared = Comparability(
        device="adb:x", machine="Galaxy", model="qwen3", model_parameters=596_000_000, prompt_tokens=256,
        new_tokens=64, threads=4, runtime="edgec 1",
    )  # fmt: skip
    subject = Subject(name="q", digest="0" * 8, recipe="4bit", target=target, artifact_bytes=440_000_000, context=2048)
    common: dict[str, Any] = {"run": "r", "comparability": compared, "subject": subject, "obtained": "measured"}
    figures: dict[str, Any] = {"prefill_tokens_per_s": 500.0, "ttft_ms": 512.0, "token_ms": [8.0], "tokens": 64}
    records = [
        RepetitionRecord(
            **{**common, **figures, **changes}, index=i, decode_tokens_per_s=decode, finish_reason="length"
        )
        for i in range(3)
    ]
    write_records(records, file)
    return file


def _planned(target: str, *files: Path) -> Planned:
    return answer(Question(str(MODEL), target, measured=observations_of(files)))


def _decode(answered: Planned) -> float:
    forecast = answered.plan.speeds.decode_tokens_per_s
    assert forecast is not None
    return forecast.mid


@pytest.mark.long
def test_a_phones_own_speed_moves_its_forecast_and_that_of_its_chip(tmp_path: Path) -> None:
    file = measured(tmp_path / "bench.jsonl")
    for target, words in ((PHONE, "this phone"), ("oneplus-12-cpu", "its chip")):
        plain, learned = _planned(target), _planned(target, file)
        assert _decode(plain) < _decode(learned) < 120
        assert f"learned from your measurements of {words}: bench.jsonl: 4bit on {PHONE}" in learned.plan.notes
    assert _decode(_planned(PHONE, file)) / _decode(_planned(PHONE)) > 1.2


def test_other_units_learn_nothing(tmp_path: Path) -> None:
    npu = _planned("galaxy-s24-ultra", measured(tmp_path / "bench.jsonl"))
    assert _decode(npu) == _decode(_planned("galaxy-s24-ultra"))
    assert not any("learned" in note for note in npu.plan.notes)


def _error(known: list[Observation], asked: list[Observation]) -> float:
    fit = calibrated("decode", asked[0].workload.unit, known)[0]
    errors = []
    for row in asked:
        value = speed(row, "decode")
        assert value is not None
        errors.append(abs(math.exp(predict(fit, row.workload)[0]) / value - 1))
    return median(errors)


def test_half_of_a_phones_rows_bring_the_others_nearer() -> None:
    """Each device with six published speeds on a unit, left out: the error without any of its rows, and with half.

    Rows of one source alternate between two formats, so that pairs are told and asked for.
    """
    rows = [row for row in observations() if speed(row, "decode") is not None]
    gains = []
    for device, unit in sorted({(row.workload.device, row.workload.unit) for row in rows}):
        own = [row for row in rows if (row.workload.device, row.workload.unit) == (device, unit)]
        others = [row for row in rows if row.workload.device != device]
        if len(own) >= 6:
            told, asked = ([row for i, row in enumerate(own) if (i % 4 < 2) is half] for half in (True, False))
            gains.append((_error(others, asked), _error(others + told, asked)))
    without, with_half = (median(each) for each in zip(*gains, strict=True))
    assert len(gains) >= 10 and with_half < 0.8 * without, (without, with_half)


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"simulated": True}, "E867", "emulator"),
        ({"target": "host"}, "E867", "bandwidth of host is unknown"),
        ({"target": "galaxy-s99"}, "E163", ""),
    ],
)
def test_what_nothing_can_be_learned_from_is_refused(
    changes: dict[str, Any], code: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=code) as refused:
        observations_of([measured(tmp_path / "bench.jsonl", **changes)])
    assert why in (refused.value.why or "")


def test_measurements_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    one, other, near = (measured(tmp_path / name, value) for name, value in (("a", 30.0), ("b", 90.0), ("c", 40.0)))
    with pytest.raises(InputError, match="E868") as refused:
        observations_of([one, other])
    assert "30 and 90 tokens/s" in (refused.value.why or "")
    assert len(observations_of([one, near])) == 2


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{}")
    with pytest.raises(InputError, match="E161"):
        observations_of([tmp_path / "x"])
