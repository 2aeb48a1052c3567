"""docs/errors.md has a row for every code that is raised, and no row for one that is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import LAYERS

ROOT = Path(__file__).parents[1]
FOLDERS = (*LAYERS, "src/edgec")
CODE = re.compile(r"E[1-9]\d\d")
ROW = re.compile(r"^\| (E\d{3}) \| (.+) \| (.+) \|$", re.MULTILINE)
# E4xx: the formats of phones, E5xx: training, calibration and devices, E6xx: signatures and structure, E7xx: adapters
# where bundles run, images and schemas, E8xx: quantised checkpoints, what trained models showed, E9xx: systems and
# their tools; of any class.
ANY = ("E4", "E5", "E6", "E7", "E8", "E9")
CLASSES = {"InputError": ("E1", *ANY), "BudgetError": ("E2", *ANY), "ToolError": ("E3", *ANY)}


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, ast.parse(file.read_text())


def _codes() -> dict[str, str]:
    """Each code that stands as a literal of its own, with a file that has it."""
    return {
        node.value: file.name
        for file, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value)
    }


def _rows() -> list[tuple[str, str, str]]:
    return ROW.findall((ROOT / "docs" / "errors.md").read_text())


def test_every_code_is_documented_once() -> None:
    documented = [code for code, _, _ in _rows()]
    assert len(documented) == len(set(documented))
    undocumented = {code: file for code, file in _codes().items() if code not in documented}
    assert not undocumented


def test_no_row_is_stale() -> None:
    assert not {code for code, _, _ in _rows()} - _codes().keys()


def test_the_first_digit_agrees_with_the_class() -> None:
    wrong = [
        (file.name, node.lineno, code.value)
        for file, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES
        for code in (keyword.value for keyword in node.keywords if keyword.arg == "code")
        if isinstance(code, ast.Constant) and not str(code.value).startswith(CLASSES[node.func.id])
    ]
    assert not wrong
