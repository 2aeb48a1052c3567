"""bench, compare, eval and doctor as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from edgec.cli.bench import bench
from edgec.cli.compare import compare
from edgec.cli.doctor import doctor
from edgec.cli.eval import eval as evaluate
from edgec.errors import InputError
from tests.runtime_py.bench.test_compare import run as record
from tests.runtime_py.tiny_decoder import TEXT, built


def invoke(command: Callable[..., None], *arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


def test_bench_refuses_devices_it_cannot_reach(tiny_bundle: Path) -> None:
    result = invoke(bench, str(tiny_bundle), "--device", "toaster:123")
    assert isinstance(result.exception, InputError) and result.exception.code == "E170"


@pytest.mark.slow
def test_bench_prints_json_and_writes_records(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    shape = ["--prompt-tokens", "20", "--new-tokens", "4", "--warmups", "1"]
    result = invoke(bench, str(built()[1]), *shape, "--out", str(out), "--json")
    assert result.exit_code == 0, result.exception
    said = json.loads(result.stdout)
    assert {"TTFT", "decode", "cold load", "peak RSS"} <= {figure["name"] for figure in said["figures"]}
    assert len(out.read_text().splitlines()) == len(said["records"]) and (tmp_path / "run.svg").stat().st_size < 100_000


def test_compare_prints_ratios_and_refuses_unlike_runs(tmp_path: Path) -> None:
    a, b, c = record(tmp_path / "a"), record(tmp_path / "b", 0.5, "int4"), record(tmp_path / "c", threads=1)
    assert json.loads(invoke(compare, str(a), str(b), "--json").stdout)["ratios"][0]["ratio"] == pytest.approx(0.5)
    shown = invoke(compare, str(a), str(b)).stdout
    assert "better" in shown and "int4" in shown
    assert isinstance(invoke(compare, str(a), str(c)).exception, InputError)
    assert "allowed difference: threads" in invoke(compare, str(a), str(c), "--allow", "threads").stdout


@pytest.mark.slow
def test_eval_measures_a_text(tmp_path: Path) -> None:
    model, bundle = built()
    (tmp_path / "t.txt").write_text(TEXT)
    options = ["--text", str(tmp_path / "t.txt"), "--reference", str(model), "--out", str(tmp_path / "e.json")]
    result = invoke(evaluate, str(bundle), *options, "--json")
    assert result.exit_code == 0, result.exception
    assert json.loads(result.stdout)["overall"]["top1_agreement"] == 1.0
    assert (tmp_path / "e.json").exists() and (tmp_path / "e.svg").exists()


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--text", "x", "--tasks", "y"]])
def test_eval_wants_a_text_or_tasks(options: list[str]) -> None:
    error = invoke(evaluate, str(built()[1]), *options).exception
    assert isinstance(error, InputError) and error.code == "E156"


def test_doctor_says_what_is_there() -> None:
    result = invoke(doctor, "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["ok"] is True


@pytest.mark.parametrize("command", [bench, compare, evaluate, doctor])
def test_help_shows_two_examples(command: Callable[..., None]) -> None:
    assert invoke(command, "--help").stdout.count(f"edgec {command.__name__}") >= 2
