"""Bundles side by side: one table, one chart, and a refusal of what cannot be compared."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from edgec.cli.app import run_cli
from edgec.errors import InputError
from edgec.runtime_py.evaluate.side_by_side import SideBySide, quality_chart, report, side_by_side_table

ROWS = [
    SideBySide("float.edgec", "float, host", 21_000_000, 28.9, 0.0, 1.0, 900.0),
    SideBySide("4bit.edgec", "4bit, host", 3_300_000, 29.1, 0.004, 0.943, 3464.2),
    SideBySide("iphone.edgec", "lut4, iphone", 3_700_000, None, None, None, None),
]


def test_the_table_says_what_is_unavailable_and_fits() -> None:
    console = Console(width=80, file=io.StringIO())
    console.print(side_by_side_table(ROWS))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "94 %" in text and "3,464" in text and text.count("unavailable") == 3


def test_the_chart_labels_recipes(tmp_path: Path) -> None:
    drawn = quality_chart(ROWS)
    assert ">float<" in drawn and ">4bit<" in drawn and "lut4" not in drawn and "perplexity" in drawn
    report(ROWS, tmp_path / "chart.svg", as_json=True)
    assert (tmp_path / "chart.svg").read_text() == drawn


def test_without_a_text_there_is_no_chart() -> None:
    with pytest.raises(InputError) as refused:
        quality_chart(ROWS[2:])
    assert refused.value.code == "E164"


def test_bundles_and_runs_are_not_mixed(tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.jsonl").touch()
    for given in ([tiny_bundle, tmp_path / "run.jsonl"], [tiny_bundle], [tmp_path / "run.jsonl"] * 3):
        assert run_cli(["compare", *map(str, given)]) == 1
        assert "[E160]" in capsys.readouterr().err


def test_two_bundles_are_measured(tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time there was a little girl called Lily. " * 6)
    words = ["compare", str(tiny_bundle), str(tiny_bundle), "--text", str(text), "--json"]
    assert run_cli([*words, "--chart", str(tmp_path / "chart.svg")]) == 0
    rows = json.loads(capsys.readouterr().out)["bundles"]
    assert len(rows) == 2 and rows[0]["perplexity"] == rows[1]["perplexity"] > 1 and rows[0]["tokens_per_s"] > 0
    assert (tmp_path / "chart.svg").is_file()
