"""Turns, resuming, failures: with workers that answer at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import rounds
from benchmarks.harness.cases import Case
from benchmarks.harness.models import TINY
from benchmarks.harness.processes import ProcessFailed
from benchmarks.harness.rounds import FIRST_LOAD, Rounds, curves, speeds
from benchmarks.harness.store import Store
from benchmarks.harness.subjects import Subject

CASE = Case("decode at 16", 16, 1, steps=4, repeats=1)
JOB = {"kind": "speed", "cases": [CASE.to_json()]}
SUBJECTS = (Subject("edgec", TINY, "fast", "edgec"), Subject("peer", TINY, "slow", "gguf"))
SECONDS = {"fast": 0.1, "slow": 0.2}


class Workers:
    """Counts processes; ``broken`` names a worker that fails."""

    def __init__(self, broken: str = "") -> None:
        self.started: list[tuple[str, int]] = []
        self.held: list[Mapping[str, str]] = []
        self.broken = broken

    def __call__(
        self, module: str, job: Mapping[str, Any], *, environment: Mapping[str, str] | None = None, **_: Any
    ) -> dict[str, Any]:
        self.started.append((module, job["threads"]))
        self.held.append(environment or {})
        if module == self.broken:
            raise ProcessFailed("out of memory")
        wall = SECONDS[module] * len(self.started)
        names = ["load", "first token", *(case["name"] for case in job["cases"])]
        samples = [{"case": name, "wall_s": wall, "cpu_s": wall} for name in names]
        return {"samples": samples, "others": 0.25}


def turns(tmp_path: Path, count: int = 3, budget_s: float = 60.0) -> Rounds:
    shop: Any = SimpleNamespace(made=lambda s: SimpleNamespace(path=tmp_path), interpreter=lambda s: Path("python"))
    return Rounds(shop, Store(tmp_path), count, (1, 2), budget_s, lambda what, share: None)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    fake = Workers()
    monkeypatch.setattr(rounds, "run_worker", fake)
    return fake


def test_a_subject_that_is_held_to_a_lesser_processor_is_measured_apart(tmp_path: Path, workers: Workers) -> None:
    held = tuple(replace(subject, isa="avx2") for subject in SUBJECTS)
    for subjects in (SUBJECTS, held):
        turns(tmp_path, count=1).take(subjects, JOB)
    assert workers.held == [{}] * 4 + [{"EDGEC_ISA": "avx2"}] * 4


def test_subjects_take_turns(tmp_path: Path, workers: Workers) -> None:
    outcomes, failures = turns(tmp_path, count=2).take(SUBJECTS, JOB)
    assert not failures
    assert workers.started == [("fast", 1), ("slow", 1), ("fast", 2), ("slow", 2)] * 2
    rows = speeds(outcomes, [CASE])
    assert [(r.subject, r.threads, r.case) for r in rows][:2] == [
        ("edgec", 1, "load to first token"),
        ("edgec", 1, "decode at 16"),
    ]
    decode = rows[1]
    assert (decode.wall_ms.low, decode.wall_ms.high, decode.wall_ms.count) == pytest.approx((100 / 4, 500 / 4, 2))
    assert rows[0].wall_ms.low == pytest.approx(200)
    assert decode.others == 0.25
    assert speeds(outcomes, (), FIRST_LOAD)[0].case == FIRST_LOAD


def test_a_second_run_starts_nothing(tmp_path: Path, workers: Workers) -> None:
    first, _ = turns(tmp_path).take(SUBJECTS, JOB)
    count = len(workers.started)
    again, _ = turns(tmp_path).take(SUBJECTS, JOB)
    assert len(workers.started) == count
    assert [o.result for o in again] == [o.result for o in first]
    turns(tmp_path, count=4).take(SUBJECTS, JOB)
    assert len(workers.started) == count + 4


def test_no_load_waits_for_the_disk(tmp_path: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "part.bin").write_bytes(b"1")
    read: list[str] = []
    monkeypatch.setattr(rounds, "warm_pages", lambda path: read.append(path.name))
    turns(tmp_path, count=1).take(SUBJECTS, JOB)
    assert read.count("part.bin") == len(workers.started) == 4


def test_a_failing_subject_is_left_out_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Workers("slow")
    monkeypatch.setattr(rounds, "run_worker", broken)
    outcomes, failures = turns(tmp_path).take(SUBJECTS, JOB)
    assert [(f.part, f.what) for f in failures] == [("tiny: peer", "out of memory")]
    assert {o.turn.subject.name for o in outcomes} == {"edgec"}
    assert broken.started.count(("slow", 1)) == 1


def test_an_optional_peer_that_fails_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crashing(Workers):
        def __call__(self, module: str, job: Mapping[str, Any], **_: Any) -> dict[str, Any]:
            if module == "slow":
                raise ProcessFailed("python -m slow ended with status 1: Traceback\n  line 3\nImportError: no AVX")
            return super().__call__(module, job)

    monkeypatch.setattr(rounds, "run_worker", Crashing())
    subjects = (SUBJECTS[0], replace(SUBJECTS[1], optional=True))
    outcomes, failures = turns(tmp_path, count=1).take(subjects, JOB)
    assert {o.turn.subject.name for o in outcomes} == {"edgec"}
    assert [(f.part, f.what, f.optional) for f in failures] == [("tiny: peer", "not run: ImportError: no AVX", True)]


def test_rounds_end_with_the_time_and_say_so(tmp_path: Path, workers: Workers) -> None:
    outcomes, failures = turns(tmp_path, count=5, budget_s=-1.0).take(SUBJECTS, JOB)
    assert {o.turn.round for o in outcomes} == {0, 1}
    assert failures[0].what == "speed: 2 of 5 rounds"


def test_a_curve_adds_up_the_spans(tmp_path: Path) -> None:
    def spans(*seconds: float) -> list[dict[str, float]]:
        return [{"wall_s": s, "cpu_s": s} for s in seconds]

    result = {"contexts": [16, 32], "steps": 5, "prefill": spans(1.0, 2.0), "decode": spans(0.4, 0.8), "others": None}
    turn = rounds.Turn(SUBJECTS[0], 2, 0)
    (curve,) = curves([rounds.Outcome(turn, result)])
    assert [s.median for s in curve.ttft_ms] == [1000, 3000]
    assert [s.median for s in curve.decode_ms] == pytest.approx([100, 200])
