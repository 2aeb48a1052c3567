from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import edgec
from edgec.bundle.folder import Bundle
from edgec.devices.host import HostTransport
from edgec.devices.job import Job
from edgec.devices.transport import Address, DeviceFacts
from edgec.errors import InputError
from edgec.page_cache import drop_pages, resident_share, warm_pages
from edgec.runtime_py.bench import bench as bench_module
from edgec.runtime_py.bench import run as run_module
from edgec.runtime_py.bench.bench import BenchResult, bench
from edgec.runtime_py.bench.console import report
from edgec.runtime_py.bench.devices import Outcome
from edgec.runtime_py.bench.job import lap, run_job
from edgec.runtime_py.bench.record import (
    LoadRecord,
    MemoryRecord,
    ProfileRecord,
    RepetitionRecord,
    RunRecord,
    read_records,
)
from edgec.runtime_py.bench.shown_prompt import ShownPrompt
from edgec.runtime_py.bench.table import table
from edgec.runtime_py.engines.instructions import linear_kernels
from tests.runtime_py.fake_stepper import FakeStepper, sums

FACTS = DeviceFacts("Linux", "Chip", 4, 1 << 33, None, None, 0.5, None)
SHORT: dict[str, Any] = {"prompt_tokens": 20, "new_tokens": 4}


def phase(name: str, tokens: int) -> dict[str, Any]:
    rows = [("edgec::cached_attention.out", 2, 3.0, 0.75), ("outside instructions", 0, 1.0, 0.25)]
    operators = [dict(zip(("operator", "calls", "ms", "share"), row, strict=True)) for row in rows]
    return {"phase": name, "tokens": tokens, "repetitions": 3, "ms": 4.0, "operators": operators}


class Recorded:
    """A device whose answers are known: the numbers below must come out again."""

    address = Address("host")
    simulated = whole_runs = False

    def __init__(self, gaps: tuple[float, ...] = (0.010, 0.020, 0.030)) -> None:
        self.jobs: list[Mapping[str, Any]] = []
        self._gaps = gaps

    def facts(self) -> DeviceFacts:
        return FACTS

    def check(self, bundle: Bundle) -> None:
        self.checked = bundle.path

    def close(self) -> None:
        self.closed = True

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        self.jobs.append(job)
        window = {"elapsed_s": 1.5, "decode_tokens_per_s": 40.0, "clock_mhz": None, "temperature_c": None}
        answers: dict[str, dict[str, Any]] = {
            "speed": {
                "threads": 2,
                "engine": "edgec",
                "laps": [{"ttft_s": 0.1 * (i + 1), "gaps_s": self._gaps} for i in range(5)],
            },
            "load": {
                "state": job["state"],
                "load_ms": 100.0 if job["state"] == "cold" else 10.0,
                "resident_share": 0.0,
            },
            "memory": {"peak_rss_bytes": 300_000_000, "baseline_rss_bytes": 200_000_000, "obtained": "VmHWM"},
            "sustained": {"threads": 2, "windows": [window, window]},
            "profile": {"threads": 2, "phases": [phase("prefill", 20), phase("decode", 1)]},
        }
        return answers[job["kind"]]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    device = Recorded()
    monkeypatch.setattr(bench_module, "connect", lambda *_: device)
    return device


def figures(result: BenchResult) -> dict[str, tuple[float, float, float, int]]:
    return {f.name: (f.median, f.low, f.high, f.count) for f in result.figures}


def test_figures_are_medians_of_what_the_device_said(recorded: Recorded, tiny_bundle: Path) -> None:
    rows = figures(bench(tiny_bundle, **SHORT, sustained_minutes=0.01))
    assert rows["TTFT"] == pytest.approx((300, 100, 500, 5))
    assert rows["prefill"] == pytest.approx((20 / 0.3, 20 / 0.5, 20 / 0.1, 5))
    assert rows["decode"] == pytest.approx((50, 50, 50, 5))
    assert rows["inter-token p50"][0] == pytest.approx(20)
    assert rows["inter-token p99"][0] == pytest.approx(29.8)
    assert (rows["cold load"][0], rows["warm load"][0], rows["cold load"][3]) == (100, 10, 3)
    assert (rows["peak RSS"][0], rows["RSS over idle"][0]) == (300, 100)
    assert rows["sustained decode"][3] == 2


def test_jobs_are_separate_and_carry_the_options(recorded: Recorded, tiny_bundle: Path) -> None:
    bench(tiny_bundle, **SHORT, threads=1, warmups=2)
    assert [job["kind"] for job in recorded.jobs] == ["speed", *["load"] * 6, "memory"]
    assert [job["state"] for job in recorded.jobs if job["kind"] == "load"] == ["cold", "warm"] * 3
    assert {job["threads"] for job in recorded.jobs} == {1}
    assert (recorded.jobs[0]["warmups"], recorded.jobs[0]["repetitions"]) == (2, 5)


def test_records_survive_the_file_and_name_their_conditions(
    recorded: Recorded, tiny_bundle: Path, tmp_path: Path
) -> None:
    result = bench(tiny_bundle, **SHORT, out=tmp_path / "run.jsonl")
    records = read_records(tmp_path / "run.jsonl")
    assert tuple(records) == result.records
    head = records[0]
    assert isinstance(head, RunRecord) and head.energy_j is None and head.before.temperature_c is None
    assert {r.comparability.machine for r in records} == {"Chip x4"}
    assert all("measured" in r.obtained for r in records)
    assert result.plot is not None and ElementTree.parse(result.plot).getroot().tag.endswith("svg")


def test_a_profile_is_asked_for_and_shown(recorded: Recorded, tiny_bundle: Path, tmp_path: Path) -> None:
    from edgec.runtime_py.bench.table import profile_tables

    result = bench(tiny_bundle, **SHORT, profile=True, out=tmp_path / "run.jsonl")
    records = [r for r in read_records(tmp_path / "run.jsonl") if isinstance(r, ProfileRecord)]
    assert [(r.phase, r.tokens, r.ms) for r in records] == [("prefill", 20, 4.0), ("decode", 1, 4.0)]
    assert records[0].operators[0].share == 0.75 and "instruction" in records[0].obtained
    tables = profile_tables(result.records)
    assert [table.row_count for table in tables] == [2, 2] and "per decoded token" in str(tables[1].title)
    assert not profile_tables(bench(tiny_bundle, **SHORT).records)


def test_the_table_says_what_is_unavailable(recorded: Recorded, tiny_bundle: Path) -> None:
    caption = str(table(bench(tiny_bundle, **SHORT)).caption)
    assert (
        "energy unavailable" in caption and "temperature unavailable" in caption and "governor unavailable" in caption
    )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"repetitions": 4}, "E156"),
        ({"new_tokens": 1}, "E156"),
        ({"prompt_tokens": 0}, "E156"),
        ({"warmups": -1}, "E156"),
        ({"sustained_minutes": 0.0}, "E156"),
        ({"prompt_tokens": 90, "new_tokens": 7}, "E150"),
        ({"device": "toaster"}, "E170"),
    ],
)
def test_bad_options_start_nothing(tiny_bundle: Path, options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError, match=code):
        bench(tiny_bundle, **{**SHORT, **options})


def test_a_lap_counts_intervals_and_ignores_eos() -> None:
    result = lap(FakeStepper(lambda _: 2), ShownPrompt([5, 6, 7]), 4)
    assert result.ttft_s > 0 and len(result.gaps_s) == 3


def test_no_token_is_a_failure() -> None:
    with pytest.raises(InputError, match="E162"):
        lap(FakeStepper(sums), ShownPrompt([5]), 0)


def test_page_cache_is_dropped_and_filled(tmp_path: Path) -> None:
    path = tmp_path / "artifact"
    path.write_bytes(bytes(1 << 20))
    warm_pages(path)
    if resident_share(path) != 1.0:
        pytest.skip("mincore says nothing on this file system")
    drop_pages(path)
    assert resident_share(path) == 0.0


@pytest.mark.parametrize("kind", ["load", "memory", "speed"])
def test_jobs_measure_in_this_process(tiny_bundle: Path, kind: str) -> None:
    job = Job(kind, str(tiny_bundle), prompt_tokens=20, new_tokens=4, repetitions=2)
    result = run_job(replace(job, state="cold"))
    numbers = {"load": "load_ms", "memory": "peak_rss_bytes", "speed": "threads"}
    assert result[numbers[kind]] > 0
    if kind == "memory":
        assert result["peak_rss_bytes"] >= result["baseline_rss_bytes"] > 1 << 20


@pytest.mark.long
def test_a_fresh_process_runs_a_job(tiny_bundle: Path) -> None:
    job = Job("speed", str(tiny_bundle), prompt_tokens=20, new_tokens=4, repetitions=2, threads=1)
    result = HostTransport().run(job.to_json())
    assert result["threads"] == 1 and [len(r["gaps_s"]) for r in result["laps"]] == [3, 3]


def runtime_of(result: BenchResult) -> str:
    """What a run says it was executed by, the same in every record."""
    (runtime,) = {record.comparability.runtime for record in result.records}
    return runtime


@pytest.mark.long
def test_the_kernel_in_force_is_named_and_why_it_is_not_the_best(
    four_bits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fresh processes say that run it: by themselves, and where the environment asks for plain C++."""
    best = linear_kernels()[0]
    monkeypatch.delenv("EDGEC_ISA", raising=False)
    monkeypatch.setattr(run_module, "LOADS", 1)
    assert runtime_of(bench(four_bits, **SHORT)).endswith(f"edgec's engine, {best}")
    monkeypatch.setenv("EDGEC_ISA", "plain")
    slower = bench(four_bits, **SHORT)
    assert runtime_of(slower).endswith(f"edgec's engine, plain by EDGEC_ISA (its best: {best})")
    assert f"plain by EDGEC_ISA (its best: {best})" in str(table(slower).caption)


def test_a_processor_without_instructions_is_said_to_have_fallen_back(
    recorded: Recorded, four_bits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = recorded.run

    def plain(job: Mapping[str, Any]) -> dict[str, Any]:
        kernels = {"linear_kernel": "plain", "linear_kernels": ["plain"]}
        return answer(job) | (kernels if job["kind"] == "speed" else {})

    monkeypatch.setattr(recorded, "run", plain)
    assert runtime_of(bench(four_bits, **SHORT)).endswith(
        "plain (the processor has no instructions for a faster kernel)"
    )


def test_an_artifact_without_packed_matrices_names_no_kernel(recorded: Recorded, tiny_bundle: Path) -> None:
    assert runtime_of(bench(tiny_bundle, **SHORT)).endswith("edgec's engine")


@pytest.mark.slow
def test_a_whole_run_on_this_machine(tiny_bundle: Path, tmp_path: Path) -> None:
    result = edgec.bench(tiny_bundle, **SHORT, sustained_minutes=0.02, out=tmp_path / "run.jsonl")
    laps = [r for r in result.records if isinstance(r, RepetitionRecord)]
    assert len(laps) == 5 and all(r.tokens == 4 and r.finish_reason == "length" for r in laps)
    assert len([r for r in result.records if isinstance(r, LoadRecord)]) == 6
    assert len([r for r in result.records if isinstance(r, MemoryRecord)]) == 1


def test_an_unwritable_output_is_refused_before_measuring(tiny_bundle: Path, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(InputError) as caught:
        bench(tiny_bundle, prompt_tokens=4, new_tokens=2, out=tmp_path / "absent" / "b.jsonl", say=said.append)
    assert (caught.value.code, said) == ("E121", [])


@pytest.mark.parametrize("name", ["run.jsonl", "run.svg"])
def test_a_file_that_bench_did_not_write_is_kept(tiny_bundle: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"mine": 1}\n')
    with pytest.raises(InputError) as caught:
        bench(tiny_bundle, **SHORT, out=tmp_path / "run.jsonl")
    assert caught.value.code == "E123" and caught.value.where.endswith(name)
    assert (tmp_path / name).read_text() == '{"mine": 1}\n'


@pytest.mark.parametrize(("load", "busy"), [(0.4, False), (2.0, False), (2.1, True), (None, False)])
def test_a_busy_machine_is_named(
    recorded: Recorded,
    tiny_bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    load: float | None,
    busy: bool,
) -> None:
    monkeypatch.setattr(recorded, "facts", lambda: replace(FACTS, cores=4, load_average=load))
    result = bench(tiny_bundle, **SHORT)
    report([Outcome("host", result, None)], as_json=False)
    assert ("busy before the run" in capsys.readouterr().err) == busy
    report([Outcome("host", result, None)], as_json=True)
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == busy
