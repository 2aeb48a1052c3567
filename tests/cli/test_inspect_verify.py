"""``edgec inspect`` and ``edgec verify`` on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from edgec.bundle.canonical import canonical_json
from edgec.bundle.folder import read_manifest
from edgec.cli.inspect import inspect
from edgec.cli.verify import verify
from edgec.errors import InputError
from edgec.exporter.report.inspect_tables import manifest_tables
from edgec.runtime_py.verify.report import BundleCheck, VerifyReport
from tests.bundle.bundle_samples import PARITY, sample_manifest, write_sample


def _run(function: Any, *arguments: str) -> Any:
    app = typer.Typer()
    app.command()(function)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_inspect_shows_every_part(tmp_path: Path) -> None:
    result = _run(inspect, str(write_sample(tmp_path)))
    assert result.exit_code == 0, result.output
    for title in ("Methods", "States", "Passes", "Parity ladder", "Delegation", "Size ledger", "limits"):
        assert title in result.output
    assert "model.embed_tokens.weight" in result.output and "262,144" in result.output
    assert "context 512 tokens" in result.output and "95.3%" in result.output


def test_the_ladder_is_a_table_at_80_columns() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    told = {"stage": "quantize_embedding", "reference": "quantize_embedding", "kl_mean": 3.33e-8}
    longest = PARITY[0].model_copy(update=told)
    tables = manifest_tables(sample_manifest().model_copy(update={"parity": [longest]}))
    console.print(next(table for table in tables if "Parity ladder" in str(table.title)))
    text = console.export_text()
    assert "half:" not in text and "left out (terminal too narrow): positions, half" in text
    assert any(line.count("quantize_embedding") == 2 and "3.3e-08" in line for line in text.splitlines())


def test_a_ladder_with_a_rung_that_has_no_figures_is_a_table_at_80_columns() -> None:
    """The longest names of real bundles, beside a runner's texts, which are compared token by token."""
    figures = PARITY[0].model_copy(update={"stage": "quantize_embedding", "reference": "quantize_embedding"})
    texts = PARITY[0].model_copy(
        update={"stage": "ExecuTorch's TextLLMRunner", "reference": "artifact", "max_abs": None, "kl_mean": None}
    )
    console = Console(width=80, record=True, file=io.StringIO())
    tables = manifest_tables(sample_manifest().model_copy(update={"parity": [figures, texts]}))
    console.print(next(table for table in tables if "Parity ladder" in str(table.title)))
    shown = console.export_text()
    assert "stage:" not in shown and "left out (terminal too narrow): positions, half, max" in shown
    assert any(
        line.startswith("quantize_embedding") and line.rstrip().endswith("passed") for line in shown.splitlines()
    )


def test_inspect_as_json_is_the_manifest(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    result = _run(inspect, str(path), "--json")
    assert result.output.encode() == canonical_json(read_manifest(path))


def test_inspect_works_for_the_barest_manifest() -> None:
    fields: dict[str, object] = {key: [] for key in ("passes", "methods", "states", "parity")}
    bare = sample_manifest(delegation=None, ledger=None, limits=None, **fields)
    assert len(manifest_tables(bare)) == 1


def test_a_damaged_bundle_is_refused_by_both(tmp_path: Path) -> None:
    path = write_sample(tmp_path)
    (path / "model.pte").write_bytes(b"")
    for function in (inspect, verify):
        error = _run(function, str(path)).exception
        assert isinstance(error, InputError) and error.code == "E135" and error.exit_code == 1


@pytest.mark.parametrize(("status", "exit_code"), [("passed", 0), ("warning", 0), ("failed", 2)])
def test_verify_exits_with_2_only_when_something_differs(
    monkeypatch: pytest.MonkeyPatch, status: Any, exit_code: int
) -> None:
    report = VerifyReport(Path("a.edgec"), (BundleCheck("output vectors", status, "detail [with brackets]"),))
    monkeypatch.setattr("edgec.runtime_py.verify.verify.verify", lambda bundle, threads, device, public_key: report)
    table = _run(verify, "a.edgec")
    assert table.exit_code == exit_code and "detail [with brackets]" in table.output and status in table.output
    answer = _run(verify, "a.edgec", "--json")
    assert answer.exit_code == exit_code
    assert json.loads(answer.output)["passed"] is (exit_code == 0)
