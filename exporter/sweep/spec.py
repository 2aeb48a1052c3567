"""The specification of a sweep, as a TOML file.

models = ["examples/tiny-stories"]
recipes = ["4bit", "float"]
targets = ["host", "android-cpu"]
devices = ["host"]              # may be empty: export only

[export]                        # options of `edgec export`, without the dashes
context = 256

[bench]                         # options of `edgec bench`
prompt-tokens = 64
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from edgec.bundle.limited_json import JsonKind, read_toml
from edgec.errors import InputError

LISTS, TABLES = ("models", "recipes", "targets", "devices"), ("export", "bench")
FORBIDDEN = {"export": ("out", "target", "recipe", "json", "force"), "bench": ("out", "device", "json")}
_KEY_LETTERS = 12
_WHAT, _FIX = "The sweep's specification cannot be used.", "see docs/benchmarking.md#sweeps"


@dataclass(frozen=True)
class Artifact:
    """One export of a sweep.

    Attributes:
        inputs: what its files held when the specification was read, and edgec's version (``export_inputs``).
    """

    model: str
    recipe: str
    target: str
    options: tuple[tuple[str, Any], ...]
    inputs: str = ""

    @property
    def key(self) -> str:
        """A name for the export's files; equal exports have equal keys."""
        return _digest([self.model, self.recipe, self.target, self.options, self.inputs])


@dataclass(frozen=True)
class Cell:
    """One row of the table: an export, measured on a device or (``device`` empty) not at all."""

    artifact: Artifact
    device: str
    options: tuple[tuple[str, Any], ...]

    @property
    def key(self) -> str:
        """A name for the measurement's result; equal measurements have equal keys."""
        return _digest([self.artifact.key, self.device, self.options])


@dataclass(frozen=True)
class SweepSpec:
    """The grid of a sweep, as read from its file."""

    models: tuple[str, ...]
    recipes: tuple[str, ...]
    targets: tuple[str, ...]
    devices: tuple[str, ...]
    export: tuple[tuple[str, Any], ...]
    bench: tuple[tuple[str, Any], ...]

    @cached_property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every export once. Files are read only once, so that edits during the sweep do not change keys."""
        inputs = {pair: export_inputs(*pair, self.export) for pair in product(self.models, self.recipes)}
        grid = product(self.models, self.recipes, self.targets)
        return tuple(Artifact(m, r, target, self.export, inputs[m, r]) for m, r, target in grid)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells of the grid, in the order of the lists."""
        return tuple(Cell(made, device, self.bench) for made in self.artifacts for device in self.devices or ("",))


def read_spec(path: Path) -> SweepSpec:
    """Read the specification of a sweep.

    Raises:
        InputError: E560, the file is not a valid specification; E170, a device's address is invalid.
    """
    from edgec.devices.transport import parse_address

    fields = read_toml(path, JsonKind(_WHAT, _FIX, "E560", 1 << 20))
    unknown = sorted(set(fields) - {*LISTS, *TABLES})
    if unknown:
        raise _fault(path, f"{unknown[0]!r} is not one of {', '.join((*LISTS, *TABLES))}")
    lists = {name: _strings(path, name, fields.get(name, [])) for name in LISTS}
    tables = {name: _options(path, name, fields.get(name, {})) for name in TABLES}
    for device in lists["devices"]:
        parse_address(device)
    models, recipes, targets, devices = (lists[name] for name in LISTS)
    return SweepSpec(models, recipes, targets, devices, *(tables[name] for name in TABLES))


def _strings(path: Path, name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _fault(path, f"{name} is not a list of texts")
    if not value and name != "devices":
        raise _fault(path, f"{name} is empty")
    return tuple(dict.fromkeys(value))


def _options(path: Path, name: str, value: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(value, Mapping) or not all(isinstance(item, str | int | float | bool) for item in value.values()):
        raise _fault(path, f"[{name}] is not a table of plain values")
    for option in FORBIDDEN[name]:
        if option in value:
            raise _fault(path, f"the sweep itself sets {option!r} of [{name}]")
    return tuple(sorted(value.items()))


def command_options(options: tuple[tuple[str, Any], ...]) -> list[str]:
    """Options as words of a command line; true is a bare flag, false is left out."""
    words: list[str] = []
    for name, value in options:
        if value is not False:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:_KEY_LETTERS]


def _fault(path: Path, why: str) -> InputError:
    return InputError(_WHAT, str(path), why, _FIX, "E560")


def export_inputs(model: str, recipe: str, options: tuple[tuple[str, Any], ...]) -> str:
    """A digest of an export's inputs and edgec's version; equal inputs have equal digests.

    Args:
        model: of a folder, the name, size and time of change of its files count; of a hub id or a factory, the name.
        recipe: of a file, the content counts; of a named recipe, nothing more.
        options: of values that name files, the content counts.
    """
    from edgec.installation import __version__

    named = [Path(name) for name in (recipe, *(value for _, value in options if isinstance(value, str)))]
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "" for path in named]
    parts = [__version__, _stamps(Path(model)), contents]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def whole_path(text: Any) -> Any:
    """The absolute path of an option's value that names a file; anything else as it is."""
    return str(Path(text).resolve()) if isinstance(text, str) and Path(text).is_file() else text


def whole_model(text: str) -> str:
    """The absolute path of a model folder; a hub id or a factory as it is."""
    return str(Path(text).resolve()) if Path(text).exists() else text


def whole_recipe(text: str) -> str:
    """The absolute path of a recipe's file; a named recipe as it is, even where there is a file of that name."""
    from edgec.exporter.recipes.file import recipe_names

    return text if text in recipe_names() else str(whole_path(text))


def _stamps(model: Path) -> list[tuple[str, int, int]]:
    if not model.is_dir():
        return [_stamp(model, model.parent)] if model.is_file() else []
    return sorted(_stamp(path, model) for path in model.rglob("*") if path.is_file())


def _stamp(path: Path, folder: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path.relative_to(folder)), status.st_size, status.st_mtime_ns
