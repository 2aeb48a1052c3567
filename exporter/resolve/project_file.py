"""``edgec.toml``: the defaults of a project folder, so that ``edgec export`` needs no arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import JsonKind, is_number, read_toml
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.sources.files.model_forms import existing_path

PROJECT_FILE = "edgec.toml"
_KIND = JsonKind(f"{PROJECT_FILE} cannot be read.", "Correct the TOML syntax.", "E115", 1 << 20, True)


@dataclass(frozen=True)
class Project:
    """The contents of an edgec.toml.

    Attributes:
        model: MODEL; a relative path counts from the file's folder.
        targets: names of targets; ``target = "x"`` is the same as ``targets = ["x"]``.
        recipe: a recipe's name or file.
        out: path of the bundle.
        budgets: name -> limit, as the budgets of the export command.
        emulate: as ``--emulate`` and ``--no-emulate``; None where the file does not say.
        file: the file that was read, or None.
    """

    model: str | None = None
    targets: tuple[str, ...] = ()
    recipe: str | None = None
    out: str | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)
    emulate: bool | None = None
    file: Path | None = None


def find_project(folder: Path | None = None) -> Project:
    """The project of a folder (the current one by default); empty when it has no edgec.toml.

    Raises:
        InputError: E115, the file is not TOML, has an unknown key or a value of the wrong type.
    """
    file = (folder or Path.cwd()) / PROJECT_FILE
    return read_project(file) if file.is_file() else Project()


def read_project(file: Path) -> Project:
    """Read an edgec.toml.

    Raises:
        InputError: E115.
    """
    table = read_toml(file, _KIND)
    for key, value in table.items():
        _check(file, key, value)
    targets = (*([table["target"]] if "target" in table else []), *table.get("targets", ()))
    # What exists next to the file is a path; anything else is a hub id or a factory.
    model = table.get("model")
    path = existing_path(model, file.parent) if model else None
    return Project(
        model=str(path) if path else model,
        targets=tuple(dict.fromkeys(targets)),
        recipe=table.get("recipe"),
        out=table.get("out"),
        budgets=table.get("budgets", {}),
        emulate=table.get("emulate"),
        file=file,
    )


def complete_options(options: ExportOptions, project: Project) -> tuple[ExportOptions, ...]:
    """Options with a project's values where the command line gives none; one for each target.

    Budgets are merged key by key. A project's ``out`` serves a single target only.

    Raises:
        InputError: E116, neither the command line nor an edgec.toml names a model.
    """
    targets: tuple[str | None, ...] = (options.target,) if options.target else project.targets or (None,)
    out = options.out or project.out
    base = replace(
        options,
        model=options.model or require_model(project),
        recipe=options.recipe or project.recipe,
        out=out if len(targets) == 1 else None,
        budgets={**project.budgets, **(options.budgets or {})},
        emulate=project.emulate if options.emulate is None else options.emulate,
    )
    return tuple(replace(base, target=target) for target in targets)


def require_model(project: Project) -> str:
    """The project's MODEL.

    Raises:
        InputError: E116, neither the command line nor an edgec.toml names one.
    """
    if project.model:
        return project.model
    raise InputError(
        what="There is no MODEL to work on.",
        where=str(project.file or Path.cwd() / PROJECT_FILE),
        why="the file has no `model`" if project.file else "no MODEL was given and there is no edgec.toml here",
        fix='Give one, for example `edgec export path/to/model --target host`, or write model = "..." in edgec.toml.',
        code="E116",
    )


def _check(file: Path, key: str, value: Any) -> None:
    if key not in _CHECKS:
        near = get_close_matches(key, _CHECKS, n=1)
        fix = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(_CHECKS)}."
        raise _bad(file, f"has an unknown key {key!r}", "unknown keys are errors, so that typos are not ignored", fix)
    wanted, good = _CHECKS[key][0], _CHECKS[key][1](value)
    if not good:
        raise _bad(file, f"has a bad value for {key!r}", f"{value!r} is not {wanted}", f"Make it {wanted}.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_limits(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_number, value.values()))


_TEXT = ("a text", _is_text)
_CHECKS = {
    "model": _TEXT,
    "target": _TEXT,
    "targets": ("a list of texts", _is_texts),
    "recipe": _TEXT,
    "out": _TEXT,
    "emulate": ("true or false", _is_flag),
    "budgets": ("a table of finite numbers", _is_limits),
}


def _bad(file: Path, what: str, why: str, fix: str) -> InputError:
    return InputError(what=f"{PROJECT_FILE} {what}.", where=str(file), why=why, fix=fix, code="E115")
