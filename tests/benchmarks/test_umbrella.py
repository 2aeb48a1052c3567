"""A whole quick run: tiny random models, no peers; its tables are complete and a second run measures nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import umbrella
from benchmarks.harness.bench import Bench, PartOfRun, Settings
from benchmarks.harness.parts import _not_run, parts
from benchmarks.harness.processes import ROOT, ProcessFailed
from benchmarks.harness.results import Failure, read_results
from benchmarks.harness.scripts import SCRIPTS
from benchmarks.harness.subjects import NOT_RUN, SPEED
from benchmarks.harness.umbrella import main
from tests.benchmarks.made_up import RESULTS

LIMIT_S = 60 * 60


@pytest.mark.slow
def test_a_quick_run_measures_every_part_and_resumes(
    tmp_path: Path, stage_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(stage_cache))
    status = main(["--quick", "--build", str(tmp_path)])
    results = read_results(tmp_path / "results.json")
    assert (results.failures, status) == ([], 0)
    assert {s.threads for s in results.speeds} == {1, 2}
    assert {s.case for s in results.speeds} >= {"load to first token", "prefill 32", "forward 8", "decode at 48"}
    assert all(s.wall_ms.count >= 1 and s.wall_ms.low > 0 for s in results.speeds)
    assert {m.runtime for m in results.memory} == {"Python", "C++ runner"}
    assert [e.subject for e in results.exports] == ["edgec"]
    assert {p.phase for p in results.profiles} == {"prefill", "decode"}
    assert {c.subject for c in results.contexts} == {"edgec, float16 KV", "edgec, int8 KV"}
    assert all(artifact.decode_bytes_computed for artifact in results.artifacts)
    assert "tiny" in capsys.readouterr().out

    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("run-*/*.json")}
    assert kept
    assert main(["--quick", "--build", str(tmp_path)]) == 0
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("run-*/*.json")} == kept
    again = read_results(tmp_path / "results.json")
    assert again.speeds == results.speeds


def test_a_full_run_is_expected_to_end_in_time() -> None:
    assert sum(part.expected_s for part in parts(quick=False)) <= LIMIT_S
    names = [part.name for part in parts(quick=False)]
    assert len(set(names)) == len(names)


def test_peers_that_nothing_drives_are_named_where_peers_are() -> None:
    named = _not_run("q8L", SPEED["q8L"])
    assert [failure.part for failure in named] == [f"q8L: {name}" for name in NOT_RUN]
    assert all(failure.optional and failure.what.startswith("not run: ") for failure in named)
    assert _not_run("tiny", SPEED["tiny"]) == []


@pytest.mark.parametrize(("optional", "status"), [(True, 0), (False, 1)])
def test_the_exit_code_is_not_of_optional_peers(
    optional: bool, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = Failure(part="q8L: peer", what="not run: no wheel", optional=optional)
    results = RESULTS.model_copy(update={"failures": [failure]})
    monkeypatch.setattr(umbrella, "measure", lambda options: results)
    assert main(["--build", str(tmp_path)]) == status
    assert "no wheel" in (tmp_path / "results.md").read_text()


def test_what_a_part_cannot_do_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.harness.artifacts import Workshop
    from benchmarks.harness.store import Store
    from benchmarks.harness.umbrella import _of_part

    settings = Settings(quick=True, more=False, threads=(1,), rounds=1, build=tmp_path)
    bench = Bench(settings, Workshop(tmp_path, "x"), Store(tmp_path))

    def broken(_bench: Bench) -> dict[str, list[object]]:
        raise ProcessFailed("no compiler")

    bench.enter(PartOfRun("limits", 60, broken), left_s=120)
    assert _of_part(bench, broken) == {}
    assert [(f.part, f.what) for f in bench.failures] == [("limits", "no compiler")]
    bench.say("something")
    assert "about 3 min left" in capsys.readouterr().err


def test_a_run_of_chosen_models_leaves_out_the_others() -> None:
    names = [part.name for part in parts(quick=False, models=("q17L",))]
    assert names[:5] == ["limits", "engine", "peers", "agreement", "artifacts"]
    assert names[5:] == ["speed of q17L", "memory", "profile"]
    settings = Settings(quick=False, more=False, threads=(1,), rounds=1, build=Path("build"), only=("q17L",))
    assert list(settings.models) == ["q17L"]
    assert settings.long_context == ()


def test_scripts_are_files_with_times() -> None:
    for script in SCRIPTS:
        assert (ROOT / "benchmarks" / f"{script.name}.py").is_file()
        assert script.expected_s > 0
