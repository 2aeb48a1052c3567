"""``edgec init``: an edgec.toml from options, and at a terminal from questions about what no option gave."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgec.bundle.atomic import typed_os_errors, write_file
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions, parse_budgets
from edgec.exporter.resolve.project_file import PROJECT_FILE

_QUESTIONS = {
    "model": ("MODEL: a hub id, a folder, a config.json or package.module:factory", ""),
    "target": ("targets, separated by commas (edgec targets lists them)", "host"),
    "recipe": ("recipe (edgec help recipes; empty: the default of the model's kind)", ""),
}


def write_project(
    folder: Path, model: str | None, targets: Sequence[str], recipe: str | None, budgets: Sequence[str], force: bool
) -> None:
    """Write the folder's edgec.toml and print where it lies.

    Raises:
        InputError: E120, it exists and ``force`` is off; E116 no model; E163 no such target; E115 a bad budget; E121.
    """
    file = folder / PROJECT_FILE
    if file.exists() and not force:
        raise InputError(f"{PROJECT_FILE} exists.", str(file), fix="use --force to replace it", code="E120")
    ask = _asked if sys.stdin.isatty() else lambda _, default: default
    given = {"model": model or "", "target": ",".join(targets), "recipe": recipe or ""}
    values = {key: given[key] or ask(*_QUESTIONS[key]) for key in _QUESTIONS}
    text = project_text(values, parse_budgets(budgets))
    with typed_os_errors(file):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(file, text.encode())
    print(f"{file}\nnext: edgec export")


def _asked(question: str, default: str) -> str:
    return input(f"{question}{f' [{default}]' if default else ''}: ").strip() or default


def project_text(values: Mapping[str, str], budgets: Mapping[str, float]) -> str:
    """The text of an edgec.toml, which reads back as it was meant.

    Args:
        values: ``model``, ``target`` (names separated by commas) and ``recipe``.
        budgets: name -> limit.

    Raises:
        InputError: E116 no model; E163 no such target; E115 no such budget.
    """
    if not values["model"]:
        raise InputError("There is no MODEL.", PROJECT_FILE, fix="give --model, or answer the question", code="E116")
    targets = [name.strip() for name in values["target"].split(",") if name.strip()]
    for name in targets:
        load_target(name)
    ExportOptions(values["model"], budgets=budgets).check()
    lines = [f"model = {_quoted(values['model'])}", f"targets = [{', '.join(map(_quoted, targets))}]"]
    if values["recipe"]:
        lines.append(f"recipe = {_quoted(values['recipe'])}")
    if budgets:
        lines += ["", "[budgets]", *(f"{name} = {limit}" for name, limit in budgets.items())]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are among those of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
