"""The plan learns from `edgec bench`: a phone's own speeds move its forecast; what teaches nothing is refused."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
from typer.testing import CliRunner

from edgec.bundle.decoder_numbers import AlikeLayers, DecoderNumbers
from edgec.cli.app import app
from edgec.devices.prediction import calibration
from edgec.devices.prediction import speed as speed_module
from edgec.devices.prediction.calibration import Observation, decoders, observations
from edgec.devices.prediction.footprint import OWN_KERNELS
from edgec.devices.prediction.held_out import calibrated, speed
from edgec.devices.prediction.roofline import predict
from edgec.devices.targets import all_targets
from edgec.devices.transport import DeviceFacts
from edgec.errors import InputError
from edgec.exporter.resolve.planned import Planned
from edgec.exporter.resolve.planned_api import plan
from edgec.runtime_py.bench.observed import observations_of
from edgec.runtime_py.bench.past_runs import keep_run, past_runs
from edgec.runtime_py.bench.record import (
    AnyRecord,
    Comparability,
    MeasuredModel,
    RepetitionRecord,
    RunRecord,
    Subject,
    read_records,
    write_records,
)
from tests.cli.test_plan import CONFIG
from tests.exporter.resolve.cached_models import cache_models

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"
MODEL = ARCHITECTURES / "qwen3-0.6b.json"
PHONE = "galaxy-s24-ultra-cpu"
QWEN = MeasuredModel(
    numbers=DecoderNumbers(
        layers=[AlikeLayers(count=28, heads=16, kv_heads=8, head_dim=128)],
        matrices=440_401_920,
        prompt_matrices=440_401_920,
        lm_head=155_582_464,
    ),
    read_bytes=420_000_000,
    kernels=OWN_KERNELS,
    kv_bits=16,
    state_bytes=0,
    call_tokens=128,
)
"""Qwen3-0.6B in 4 bits."""


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_models(monkeypatch)


def measured(
    file: Path,
    decode: float = 120.0,
    target: str = PHONE,
    model: MeasuredModel | None = QWEN,
    product: str | None = None,
    name: str = "qwen3",
    **changes: Any,
) -> Path:
    """The conditions and three repetitions of a bundle of Qwen3-0.6B."""
    prompt = changes.pop("prompt_tokens", 256)
    compared = Comparability(
        device="adb:x", machine="Galaxy", model=name, model_parameters=596_000_000, prompt_tokens=prompt,
        new_tokens=64, threads=4, runtime="edgec 1",
    )  # fmt: skip
    subject = Subject(
        name="q", digest="0" * 8, recipe="4bit", target=target, artifact_bytes=440_000_000, context=2048, measured=model
    )
    common: dict[str, Any] = {"run": "r", "comparability": compared, "subject": subject, "obtained": "measured"}
    figures: dict[str, Any] = {"prefill_tokens_per_s": 500.0, "ttft_ms": 512.0, "token_ms": [8.0], "tokens": 64}
    facts = DeviceFacts("Android 16", "Galaxy", 8, 12_000_000_000, None, None, None, None, product=product)
    simulated = {"simulated": changes.pop("simulated", False)}
    head = RunRecord(
        **common, **simulated, started="now", edgec_version="1", warmups=3, repetitions=3, ignore_eos=True,
        before=facts, after=facts, energy_j=None,
    )  # fmt: skip
    laps = [
        RepetitionRecord(
            **{**common, **figures, **simulated, **changes}, index=i, decode_tokens_per_s=decode, finish_reason="length"
        )
        for i in range(3)
    ]
    write_records([head, *laps], file)
    return file


def _planned(target: str, *files: str | Path, model: str = "qwen3-0.6b") -> Planned:
    return plan(ARCHITECTURES / f"{model}.json", target, measured=files, history=False)


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
        assert f"learned from your measurements of {words}: bench.jsonl: qwen3 4bit on {PHONE}" in learned.notes
        assert not any("another model" in note for note in learned.notes)
    assert _decode(_planned(PHONE, file)) / _decode(_planned(PHONE)) > 1.2


@pytest.mark.long
def test_other_units_learn_nothing(tmp_path: Path) -> None:
    npu = _planned("galaxy-s24-ultra", measured(tmp_path / "bench.jsonl"))
    assert _decode(npu) == _decode(_planned("galaxy-s24-ultra"))
    assert not any("learned" in note for note in npu.notes)
    assert any("measured on the cpu, and does not count for the npu" in note for note in npu.notes)


@pytest.mark.long
def test_another_model_is_named_and_teaches_the_phone(tmp_path: Path) -> None:
    file = measured(tmp_path / "bench.jsonl", 20.0)
    plain, learned = (_planned(PHONE, *files, model="qwen3-4b") for files in ((), (file,)))
    own = _planned(PHONE, file)
    assert any("bench.jsonl: qwen3 4bit on" in note and "is another model" in note for note in learned.notes)
    # Slower than expected: this model moves most, another one of the same phone less.
    change = _decode(learned) / _decode(plain)
    assert _decode(own) / _decode(_planned(PHONE)) < change < 0.95


@pytest.mark.long
def test_a_model_that_nobody_published_learns_from_itself(tmp_path: Path) -> None:
    """Of two measurements of the same speed the one of the planned model counts more."""
    numbers = DecoderNumbers(
        layers=[AlikeLayers(count=24, heads=16, kv_heads=4, head_dim=64)],
        matrices=364_904_448,
        prompt_matrices=364_904_448,
        lm_head=32_768_000,
    )
    itself = QWEN.model_copy(update={"numbers": numbers, "read_bytes": 250_000_000})
    deeper = [AlikeLayers(count=25, heads=16, kv_heads=4, head_dim=64)]
    other = itself.model_copy(update={"numbers": numbers.model_copy(update={"layers": deeper})})
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    files = [(), *([measured(tmp_path / f"{i}", 40.0, model=each)] for i, each in enumerate((itself, other)))]
    plans = [plan(tmp_path, PHONE, measured=file, history=False) for file in files]
    plain, of_itself, of_other = map(_decode, plans)
    assert of_itself < of_other < plain
    assert [any("another model" in note for note in each.notes) for each in plans] == [False, False, True]


def test_a_record_becomes_the_workload_that_a_plan_has(tmp_path: Path) -> None:
    """The same decoder, kernels, cache and calls: Qwen3-0.6B is itself, and Core ML reads its whole cache."""
    (own,) = observations_of([measured(tmp_path / "cpu")])
    assert (own.workload.model, own.workload.runtime, own.workload.layers) == ("qwen3-0.6b", "edgec", 28)
    assert own.workload.parameters == pytest.approx(596e6, rel=0.001)
    assert own.workload.cache_bytes == 256 * 28 * 2 * 8 * 128 * 2
    standard = QWEN.model_copy(update={"kernels": "xnnpack"})
    (stock,) = observations_of([measured(tmp_path / "standard", model=standard)])
    assert (stock.workload.runtime, stock.workload.kernels) == ("executorch", "xnnpack")
    core_ml = QWEN.model_copy(update={"kernels": "coreml", "call_tokens": 64})
    (engine,) = observations_of([measured(tmp_path / "npu", target="iphone-15-pro", model=core_ml)])
    assert (engine.workload.tokens_at_once, engine.workload.kernels) == (64, "coreml")
    assert engine.workload.cache_bytes == 2048 * 28 * 2 * 8 * 128 * 2


def test_the_phone_is_the_one_that_ran_it(tmp_path: Path) -> None:
    """A bundle for any phone was measured on one: the device says which, or the user does."""
    told = measured(tmp_path / "told", target="android-cpu", product="samsung Galaxy S24 Ultra")
    assert observations_of([told])[0].workload.device == "galaxy-s24-ultra"
    moved = measured(tmp_path / "moved", target=PHONE, product="OnePlus 12")
    assert observations_of([moved])[0].workload.device == "oneplus-12"
    unnamed = measured(tmp_path / "unnamed", target="android-cpu", product="samsung SM-S928B")
    with pytest.raises(InputError, match="E867") as refused:
        observations_of([unnamed])
    assert "PHONE=FILE" in refused.value.fix
    assert observations_of([f"galaxy-s24-ultra={unnamed}"])[0].workload.device == "galaxy-s24-ultra"


def _kept(file: Path) -> Sequence[AnyRecord]:
    return read_records(file)


@pytest.mark.long
def test_runs_are_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "cache"))
    first, again = (_kept(measured(tmp_path / name, value)) for name, value in (("a", 118.0), ("b", 120.0)))
    for records in (first, again):
        keep_run(records)
    assert len(past_runs()) == 1  # The newer run of the same bundle in the same conditions.
    keep_run(_kept(measured(tmp_path / "pixel", 20.0, target="pixel-9-cpu")))
    keep_run(_kept(measured(tmp_path / "emulated", 1.0, simulated=True)))
    assert len(past_runs()) == 2
    learned, plain = plan(MODEL, PHONE), plan(MODEL, PHONE, history=False)
    assert _decode(learned) == pytest.approx(_decode(_planned(PHONE, tmp_path / "b")))
    assert any("kept an earlier run on this phone" in note and "--no-history" in note for note in learned.notes)
    assert _decode(plain) == _decode(_planned(PHONE)) and plain.learning == ()
    both = plan(MODEL, PHONE, measured=[tmp_path / "b"])
    assert _decode(both) == _decode(learned)  # Counted once.


def test_a_run_that_cannot_be_kept_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / "file"))
    keep_run(_kept(measured(tmp_path / "a")))
    assert past_runs() == ()


def _published(device: str, unit: str) -> list[Mapping[str, str]]:
    with Path(calibration.__file__).with_name("speeds.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if (row["device"], row["unit"]) == (device, unit)]
    return [row for row in rows if row["decode_tokens_per_s"]]


def _as_record(file: Path, row: Mapping[str, str], target: str) -> Path:
    """A published speed as the file that `edgec bench` would have written of it."""
    shape = decoders()[row["decoder"]]
    layers, width = int(shape["layers"]), int(shape["attention_width"])
    matrices = int(shape["matrix_parameters"])
    alike = AlikeLayers(count=layers, heads=width, kv_heads=int(shape["kv_width"]), head_dim=1)
    numbers = DecoderNumbers(
        layers=[alike],
        matrices=matrices,
        prompt_matrices=matrices,
        lm_head=max(0, int(float(row["parameters"])) - matrices),
    )
    reads = QWEN.model_copy(update={"numbers": numbers, "read_bytes": int(float(row["weight_bytes"]))})
    prompt, decode = int(float(row["prompt_tokens"] or 256)), float(row["decode_tokens_per_s"])
    # Fine-tunes of one decoder are bundles of their own.
    return measured(file, decode, target, reads, name=row["model"], prompt_tokens=prompt)


def _error(known: list[Observation], asked: Sequence[Observation]) -> float:
    fit = calibrated("decode", asked[0].workload.unit, known)[0]
    errors = []
    for row in asked:
        value = speed(row, "decode")
        assert value is not None
        errors.append(abs(math.exp(predict(fit, row.workload)[0]) / value - 1))
    return median(errors)


@pytest.mark.long
def test_half_of_a_phones_rows_bring_the_others_nearer(tmp_path: Path) -> None:
    """Each phone's CPU with six published speeds, left out: the error without any of its rows, and with half.

    Both halves pass through files of records, as if edgec had been measured; rows of one source alternate between two
    formats, so that pairs are told and asked for.
    """
    rows = [row for row in observations() if speed(row, "decode") is not None]
    targets = {target.phone: target.name for target in all_targets() if (target.unit, target.format) == ("cpu", "pte")}
    gains = []
    for device in sorted({row.workload.device for row in rows if row.workload.unit == "cpu"} & targets.keys()):
        own = _published(device, "cpu")
        if len(own) >= 6:
            files = [_as_record(tmp_path / f"{device}-{i}", row, targets[device]) for i, row in enumerate(own)]
            read = observations_of(files)
            others = [row for row in rows if row.workload.device != device]
            told, asked = ([row for i, row in enumerate(read) if (i % 4 < 2) is half] for half in (True, False))
            gains.append((_error(others, asked), _error([*others, *told], asked)))
    without, with_half = zip(*gains, strict=True)
    assert len(gains) >= 5 and median(with_half) < 0.9 * median(without) and mean(with_half) < 0.6 * mean(without), (
        gains
    )


@pytest.fixture
def without_poco(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The published speeds less those of the phone ``poco-myron``."""
    others = tuple(row for row in observations() if row.workload.device != "poco-myron")

    def forget() -> None:
        for each in vars(speed_module).values():
            if hasattr(each, "cache_clear") and each is not observations:
                each.cache_clear()

    forget()
    monkeypatch.setattr(speed_module, "observations", lambda: others)
    yield
    monkeypatch.undo()
    forget()


@pytest.mark.long
def test_the_command_learns_half_of_a_phones_rows(tmp_path: Path, without_poco: None) -> None:
    """`edgec plan --measured` of Qwen3-1.7B in 4 bits, on a phone of which it is told every other model's speeds.

    Published are 31.6 tokens/s for 1.23 GB; the recipe's bytes are within 5 % of these.
    """
    others = [row for row in _published("poco-myron", "cpu") if row["decoder"] != "qwen3-1.7b"]
    files = [_as_record(tmp_path / f"{i}", row, "poco-myron-cpu") for i, row in enumerate(others[::2])]
    model, errors = str(ARCHITECTURES / "qwen3-1.7b.json"), []
    for told in ([], [word for file in files for word in ("--measured", str(file))]):
        arguments = ["plan", model, "--target", "poco-myron-cpu", "--no-history", "--json", *told]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        errors.append(abs(json.loads(result.stdout)["speeds"]["decode_tokens_per_s"]["mid"] / 31.6 - 1))
    assert errors[1] < 0.75 * errors[0], errors


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"simulated": True}, "E867", "emulator"),
        ({"target": "host"}, "E867", "bandwidth of this-machine is unknown"),
        ({"target": "galaxy-s99"}, "E163", ""),
        ({"model": None}, "E867", "how large the model is"),
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
    slow = measured(tmp_path / "d", 30.0, prefill_tokens_per_s=100.0)
    with pytest.raises(InputError, match="E868") as refused:
        observations_of([one, slow])
    assert "read its prompt at 100 and 500 tokens/s" in (refused.value.why or "")


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("{}")
    with pytest.raises(InputError, match="E161"):
        observations_of([tmp_path / "x"])
