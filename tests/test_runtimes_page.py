"""docs/runtimes.md is true: a runtime that was run here has a test that exists, and others say that they were not."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "runtimes.md").read_text()
_TEST = re.compile(r"`(tests/[^`]+)`")
_WITHOUT = ("no: ", "by hand, ")


def rows(page: str) -> list[list[str]]:
    """The cells of the table's rows: artifact, runtime, run here, what is lost."""
    lines = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    start = next(i for i, row in enumerate(cells) if row[:3] == ["artifact", "runtime", "run here"])
    return [row for row in cells[start + 2 :] if len(row) == len(cells[start])]


def faults(page: str) -> list[str]:
    """Rows that say neither that nothing ran nor which tests run it, and tests that are not there."""
    found = []
    for artifact, runtime, run, _ in rows(page):
        named = _TEST.findall(run)
        if not named and not run.startswith(_WITHOUT):
            found.append(f"{artifact} in {runtime}: {run or 'nothing'}")
        found += [name for name in named if not has_tests(ROOT / name.partition("::")[0], name.partition("::")[2])]
    return found


def has_tests(file: Path, name: str = "") -> bool:
    """Whether a file defines tests, and among them that of this name."""
    if not file.is_file():
        return False
    nodes = ast.parse(file.read_text()).body
    tests = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    return name in tests if name else bool(tests)


def test_each_row_that_was_run_here_names_a_test_that_exists() -> None:
    assert len(rows(PAGE)) >= 9 and faults(PAGE) == []


HEAD = "| artifact | runtime | run here | what is lost |\n|---|---|---|---|\n"
PLANTED = {
    "in every export": ["a in b: in every export"],
    "": ["a in b: nothing"],
    "yes: `tests/gone.py`": ["tests/gone.py"],
    "yes: `tests/conftest.py`": ["tests/conftest.py"],
    "yes: `tests/test_runtimes_page.py::test_gone`": ["tests/test_runtimes_page.py::test_gone"],
    "no: it asks for other names": [],
    "by hand, as a page says": [],
    "yes: `tests/test_runtimes_page.py::test_planted_rows_are_found`": [],
}


@pytest.mark.parametrize(("run", "found"), PLANTED.items(), ids=range(len(PLANTED)))
def test_planted_rows_are_found(run: str, found: list[str]) -> None:
    assert faults(f"{HEAD}| a | b | {run} | |\n") == found
