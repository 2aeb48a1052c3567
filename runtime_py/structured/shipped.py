"""Schemas that a bundle holds, by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from edgec.bundle.folder import Bundle
from edgec.bundle.limited_json import limited_bytes, parse_json
from edgec.bundle.schemas import MOST_SCHEMA_BYTES, SCHEMA_NAME, TOKENS, grammar_file, schema_file
from edgec.errors import InputError
from edgec.runtime_py.engines.choice import engine_for
from edgec.runtime_py.engines.engine_structure import EngineStructure
from edgec.runtime_py.structured.structures import OpenStructure


def names_schema(value: object) -> bool:
    """Whether a value is a schema's name: what could be one, unless a file of this name exists."""
    return isinstance(value, str | Path) and bool(SCHEMA_NAME.fullmatch(str(value))) and not Path(value).exists()


def constrained_structure(bundle: Bundle, name: str) -> OpenStructure | None:
    """Opens a schema of the bundle in edgec's engine; None where another engine executes the bundle here."""
    if engine_for(bundle) != "edgec":
        return None
    return partial(EngineStructure, bundle.path / grammar_file(name), bundle.path / TOKENS)


def shipped_structure(bundle: Bundle, name: str) -> dict[str, Any]:
    """What the bundle holds by a name, as the argument of `wanted`; raises as `shipped_schema`."""
    told = shipped_schema(bundle, name)
    if isinstance(told, list):
        return {"grammar": "\n".join(told)}
    return {"regex" if isinstance(told, str) else "schema": told}


def shipped_schema(bundle: Bundle, name: str) -> Any:
    """A schema that the bundle holds, as JSON; a regular expression is a text, a grammar a list of its lines.

    Raises:
        InputError: E714, it holds none of this name, or it is damaged.
    """
    if name not in bundle.manifest.schemas:
        held = ", ".join(bundle.manifest.schemas)
        raise InputError(
            what=f"The bundle has no schema {name!r}.",
            where=str(bundle.path),
            why=f"it has {held}" if held else "it was exported without schemas",
            fix="give one of those, a file with a JSON Schema, or export again with --schema NAME=FILE",
            code="E714",
        )
    path = bundle.path / schema_file(name)
    try:
        return _checked(parse_json(limited_bytes(path, MOST_SCHEMA_BYTES)))
    except (OSError, ValueError) as error:
        fix = "export the bundle again"
        raise InputError("A schema in the bundle cannot be read.", str(path), str(error), fix, "E714") from error


def _checked(told: Any) -> Any:
    if isinstance(told, list) and not all(isinstance(line, str) for line in told):
        raise ValueError("the lines of a grammar are not all texts")
    return told
