"""The comparison of Vision, audio and encoders: what it feeds, compares and prints, and whole runs of tiny models."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import senses
from benchmarks.harness.processes import ROOT, ProcessFailed
from benchmarks.harness.results import Failure, Machine, Speed, Spread
from benchmarks.senses_parts import inputs
from benchmarks.senses_parts.agreement import compare, difference
from benchmarks.senses_parts.jobs import Work, written_greedily
from benchmarks.senses_parts.models import MODELS, TINY, SenseModel, prepared
from benchmarks.senses_parts.result import SenseFacts, SenseResult, SenseSubject
from benchmarks.senses_parts.run import TOLERANCES, Comparison, forecast_bytes
from benchmarks.senses_parts.subjects import bits_of, subjects_of
from benchmarks.senses_parts.tables import markdown, plot, ratio

BY_SENSE = {model.sense: model for model in TINY}


def speed(subject: str, case: str, wall: float, threads: int = 1) -> Speed:
    spread = Spread(median=wall, low=wall, q1=wall * 0.9, q3=wall * 1.1, high=wall, count=3)
    return Speed(
        model="m", subject=subject, threads=threads, case=case, tokens=1, wall_ms=spread, cpu_ms=spread, others=0.0
    )


def subject(name: str, bits: str, **changes: Any) -> SenseSubject:
    facts = SenseSubject(
        model="m",
        subject=name,
        bits=bits,
        file_bytes=2_000_000,
        peak_bytes=90_000_000,
        idle_bytes=40_000_000,
        forecast_bytes=None,
        differences={"logits": 0.01},
        unrelated={"logits": 0.9},
        tolerance=0.02,
    )
    return facts.model_copy(update=changes)


def result(speeds: list[Speed], subjects: list[SenseSubject], failures: list[Failure]) -> SenseResult:
    machine = Machine(
        cpu="x", cores=2, memory_bytes=1, system="s", features=[], governor=None, load_average=(None, None)
    )
    return SenseResult(
        date="2026-11-26",
        rounds=3,
        machine=machine,
        versions={},
        models=[SenseFacts(name="m", about="a model")],
        subjects=subjects,
        speeds=speeds,
        failures=failures,
    )


def test_a_peer_is_compared_with_the_bundle_of_as_many_bits() -> None:
    names = {"edgec, float": "float", "edgec, 8 bits": "8 bits", "ONNX Runtime, 8 bits": "8 bits"}
    speeds = [speed("edgec, float", "decode", 4.0), speed("edgec, 8 bits", "decode", 2.0)]
    peer = speed("ONNX Runtime, 8 bits", "decode", 5.0)
    failure = Failure(part="m: CTranslate2, float", what="not run: no wheel", optional=True)
    made = result([*speeds, peer], [subject(name, bits) for name, bits in names.items()], [failure])
    assert ratio(made, peer) == 2.5 and ratio(made, speeds[0]) is None
    text = markdown(made)
    # 2 ms a token are 500 tokens per second; the quartiles of a rate are turned around.
    assert "| decode, tokens/s | edgec, 8 bits | 500 (455 to 556) | - |" in text
    assert "| decode, tokens/s | ONNX Runtime, 8 bits | 200 (182 to 222) | 2.50x |" in text
    assert "m: CTranslate2, float: not run: no wheel" in text
    assert "| m | edgec, float | 2 | 50 | 90 | unavailable |" in text
    assert plot(made).startswith("<svg") and "ONNX Runtime, 8 bits: m, decode" in plot(made)
    assert SenseResult.model_validate_json(made.model_dump_json()) == made


def test_a_subject_with_one_output_that_differs_does_not_agree() -> None:
    assert subject("x", "float").agrees
    assert not subject("x", "float", differences={"states": 0.001, "logits": 0.03}).agrees


def test_a_subject_that_says_no_numbers_or_fails_is_a_failure_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = BY_SENSE["image"]
    comparison = Comparison(cast(Any, SimpleNamespace(say=lambda _: None)), cast(Any, None))
    one = subjects_of(model)[0]
    for values in (np.full(3, np.nan), np.zeros(4)):
        differences = {"states": 0.0, "logits": difference(values, np.ones(3))}
        assert comparison._judged(model, one, {"differences": differences, "unrelated": {}}) is None
    monkeypatch.setattr(Comparison, "_work", _ended)
    assert comparison._judged(model, one, {"differences": {"logits": 0.0}, "unrelated": {}}) is None
    odd = "not timed: its logits are not finite, or of another shape than transformers'"
    assert [failure.what for failure in comparison.failures] == [odd, odd, "it was killed"]


def _ended(*_: object) -> Any:
    raise ProcessFailed("it was killed")


def test_differences_are_relative_to_the_largest_value() -> None:
    assert difference(np.array([1.0, -4.1]), np.array([1.0, -4.0])) == pytest.approx(0.025)
    assert difference(np.zeros(3), np.zeros(4)) == float("inf")


def test_a_text_goes_on_with_the_likeliest_token_that_does_not_end_it() -> None:
    seen = []

    def step(token: int, place: int) -> Any:
        seen.append((token, place))
        return np.eye(6, dtype=np.float32)[(token + 1) % 6]

    first = np.array([0, 5, 9, 0, 0, 0], np.float32)
    tokens, rows = written_greedily(first, {"prompt": [4, 4], "end": 2}, step, 3)
    assert tokens == [4, 4, 1, 0] and seen == [(1, 2), (0, 3)] and len(rows) == 3


def test_what_another_case_measures_is_taken_off() -> None:
    done: list[str] = []
    work = Work(lambda: done.append("whole"), lambda: done.append("before"), lambda: done.append("part"))
    sample = work.sample("decode")
    assert done == ["before", "whole", "part"] and sample.case == "decode"
    assert sample.wall_s < 0.1


def test_inputs_are_the_same_in_every_process_and_depend_on_the_seed() -> None:
    given = BY_SENSE["seeing"].given
    assert np.array_equal(inputs.pixels(given), inputs.pixels(given))
    assert not np.array_equal(inputs.pixels(given), inputs.pixels(given, 1))
    asked = inputs.prompt(given)
    assert asked.shape == (1, given["words"] + given["rows"])
    assert (asked == given["image_token"]).sum() == given["rows"] and asked.max() == given["image_token"]


@pytest.mark.parametrize("model", [*MODELS, *TINY], ids=lambda model: model.name)
def test_every_form_has_bits_a_tolerance_and_the_cases_of_its_memory(model: SenseModel) -> None:
    subjects = subjects_of(model)
    assert {bits_of(each) for each in subjects} <= set(TOLERANCES)
    assert {bits_of(each) for each in subjects if each.peer} == {"float", "8 bits"}
    assert set(model.memory_cases) <= {case.name for case in model.cases}
    assert not any(each.peer for each in subjects_of(model, peers=False))
    assert len({each.name for each in subjects}) == len(subjects)


@pytest.mark.long
def test_what_a_runtime_that_reads_another_input_says_is_far_from_the_tolerance(tmp_path: Path) -> None:
    model = BY_SENSE["image"]
    folder = prepared(model, tmp_path / "model")
    job = {"folder": str(folder), "sense": model.sense, "given": dict(model.given)}
    np.savez(tmp_path / "made.npz", logits=np.zeros(10, np.float32))
    told = compare({**job, "made": {"zeros": str(tmp_path / "made.npz")}})["zeros"]
    assert told["differences"] == {"logits": 1.0}
    # 0.23 was measured; the tolerance of float is 0.002.
    assert told["unrelated"]["logits"] > 50 * TOLERANCES["float"]


@pytest.mark.parametrize("sense", BY_SENSE)
def test_every_model_has_a_forecast(sense: str) -> None:
    low, high = forecast_bytes(BY_SENSE[sense], "8bit")
    assert 0 < low <= high


@pytest.fixture
def build(tmp_path: Path, stage_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a run, with the compiled engine; the run moves the cache of its process, which is restored."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "runner").symlink_to(stage_cache / "runner")
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(stage_cache))
    return tmp_path


def run(build: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> SenseResult:
    options = ["--build", str(build), "--rounds", "1", "--repeats", "1", "--threads", "1", "--json"]
    status = senses.main([*options, *arguments])
    made = SenseResult.model_validate_json(capsys.readouterr().out)
    assert status == 0 and [failure for failure in made.failures if not failure.optional] == []
    return made


def check(made: SenseResult, model: SenseModel, names: set[str]) -> None:
    assert {each.subject for each in made.subjects} == names
    assert {(s.subject, s.case) for s in made.speeds} == {
        (name, case) for name in names for case in ("load", *(case.name for case in model.cases))
    }
    for each in made.subjects:
        assert each.agrees and each.peak_bytes and each.file_bytes > 0
        # Another input must not pass for this one, or the comparison says nothing.
        if each.bits == "float":
            assert min(each.unrelated.values()) > 5 * each.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("model", TINY, ids=lambda model: model.name)
def test_edgec_is_measured_from_the_export_to_the_table(
    model: SenseModel, build: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(build, capsys, "--only", model.name, "--no-peers")
    check(made, model, {each.name for each in subjects_of(model, peers=False)})


@pytest.mark.slow
@pytest.mark.parametrize("model", TINY, ids=lambda model: model.name)
def test_peers_compute_the_same_model(
    model: SenseModel, build: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    present = {maker for maker in ("onnx", "ctranslate2") if _environment(maker, monkeypatch)}
    wanted = [each for each in subjects_of(model) if each.peer]
    if not present.issuperset(each.maker for each in wanted):
        pytest.skip("no environments of these peers: python -m benchmarks.senses --prepare makes them")
    made = run(build, capsys, "--only", model.name)
    check(made, model, {each.name for each in subjects_of(model)})


def _environment(maker: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    variable = f"EDGEC_BENCH_{maker.upper()}"
    folder = Path(os.environ.get(variable, ROOT / "build" / "bench" / maker))
    monkeypatch.setenv(variable, str(folder))
    return (folder / "bin" / "python").is_file()


def test_a_saved_result_is_printed_again(tmp_path: Path) -> None:
    saved, lines = tmp_path / "result.json", list[str]()
    made = result([speed("edgec, float", "image", 4.0)], [subject("edgec, float", "float")], [])
    saved.write_text(made.model_dump_json())
    assert senses.main(["--table", str(saved)], lines.append) == 0
    assert "### m: a model" in lines[0] and json.loads(saved.read_text())["obtained"] == "measured"
