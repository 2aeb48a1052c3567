"""The notebook's cells run in order, and it is kept without outputs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "first-steps.ipynb"


def cells(kind: str) -> list[dict[str, Any]]:
    loaded: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    return [cell for cell in loaded["cells"] if cell["cell_type"] == kind]


def test_it_is_kept_without_outputs() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))
    assert len(cells("markdown")) > 3


@pytest.mark.slow
def test_its_cells_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells("code")):
        code = compile("".join(cell["source"]), f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(result := eval(code, names)):
            asyncio.run(result)
    assert (tmp_path / "first-steps.edgec" / "report.html").is_file()
    assert "<edgec Model" in capsys.readouterr().out and names["again"].cached_tokens > 0
