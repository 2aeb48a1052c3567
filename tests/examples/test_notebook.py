"""The notebook's cells run in order, and it is kept with what one run of them gave.

To make the outputs anew: ``jupyter nbconvert --to notebook --execute --inplace examples/first-steps.ipynb``.
"""

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


def test_it_is_kept_with_the_outputs_of_one_run() -> None:
    kept = cells("code")
    assert [cell["execution_count"] for cell in kept] == list(range(1, len(kept) + 1))
    assert all(cell["outputs"] for cell in kept if not cell["source"][0].startswith("#"))
    kinds = [(each["output_type"], each.get("name")) for cell in kept for each in cell["outputs"]]
    assert {kind for kind, _ in kinds} <= {"stream", "display_data", "execute_result"}
    assert "stderr" not in {name for _, name in kinds}, "no library's warning is kept"
    text = NOTEBOOK.read_text()
    assert len(text) < 20_000 and "exported in" in text and "/home/" not in text and "/tmp/" not in text
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
