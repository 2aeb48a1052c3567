"""The files that an export reads: a digest tells whether two exports are the same; paths are made absolute."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def export_inputs(model: str, recipe: str, options: tuple[tuple[str, Any], ...]) -> str:
    """A digest of an export's inputs and edgec's version; equal inputs have equal digests.

    Args:
        model: of a folder, the name, size and time of change of its files count; of a hub id or a factory, the name.
        recipe: of a file, the content counts; of a named recipe, nothing more.
        options: of values that name files, the content counts.
    """
    from edgec.installation import __version__

    named = [recipe, *(value for _, value in options if isinstance(value, str))]
    parts = [__version__, _stamps(Path(model)), [_content(Path(name)) for name in named]]
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


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
