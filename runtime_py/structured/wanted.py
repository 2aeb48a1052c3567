"""What a caller asks of a text's structure: a schema, any JSON, a regular expression or a grammar, checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from edgec.bundle.limited_json import first_fault, limited_bytes, parse_json
from edgec.bundle.schemas import MOST_SCHEMA_BYTES
from edgec.runtime_py.structured.engine import library
from edgec.runtime_py.structured.refusals import (
    contradiction,
    malformed,
    no_schema,
    refused_value,
    too_much,
    unreadable,
)
from edgec.runtime_py.structured.worker.describers import DESCRIBERS

_ANY_OBJECT: Final = {"type": "object"}


@dataclass(frozen=True)
class Wanted:
    """A structure that was asked for, as the library's description of it.

    Attributes:
        kind: ``schema``, ``regex`` or ``grammar``.
        grammar: the description.
        model: the pydantic class whose instance is wanted.
        sought: the schema's patterns that may begin anywhere in a string, as descriptions of their own.
    """

    kind: str
    grammar: str
    model: type[BaseModel] | None = None
    sought: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What distinguishes it from others."""
        return hashlib.sha256(self.grammar.encode()).hexdigest()

    @property
    def lark(self) -> str:
        """The rules of a grammar in Lark's notation, also of one that was given in GBNF."""
        return str(json.loads(self.grammar)["grammars"][0]["lark_grammar"])

    def value(self, text: str) -> Any:
        """The value of a whole text: what its JSON says, or the text itself.

        Raises:
            InputError: E618, a pydantic class refuses it.
        """
        if self.kind != "schema":
            return text
        if self.model is None:
            return json.loads(text, parse_int=_integer)
        try:
            return self.model.model_validate_json(text)
        except ValidationError as error:
            raise refused_value(self.model.__name__, f"{first_fault(error)}: {text}") from error


def with_every_spelling(wanted: Wanted) -> Wanted:
    """A structure whose texts may be cut into tokens in any way, also where bytes are certain.

    The library otherwise allows one token there, its own tokenizer's; a bundle's automaton allows all.
    """
    made = json.loads(wanted.grammar)
    for part in made["grammars"]:
        schema = part.pop("json_schema", None)
        rules = part["lark_grammar"] if schema is None else f"start: %json {json.dumps(schema)}"
        part["lark_grammar"] = f'%llguidance {{"no_forcing": true}}\n{rules}'
    return replace(wanted, grammar=json.dumps(made))


def _integer(digits: str) -> int | float:
    """A whole number; Python refuses to read one of more than 4,300 digits, which is infinite as a double."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def wanted(schema: Any = None, regex: Any = None, grammar: Any = None, json: Any = False) -> Wanted | None:
    """Check what is asked for; None where nothing is.

    Args:
        schema: a JSON Schema (an object, true or false), a pydantic class, or the path of a JSON file.
        regex: a regular expression that the whole text matches.
        grammar: a grammar in Lark's notation or llama.cpp's GBNF, or the path of a file with one.
        json: one JSON object, whatever is in it.

    Raises:
        InputError: E610 to E616.
        ToolError: E619, llguidance is not installed; E647, no process can be started to check it in.
    """
    given = [name for name, value in (("schema", schema), ("regex", regex), ("grammar", grammar)) if value is not None]
    given += ["json"] if json else []
    if len(given) > 1:
        raise contradiction(f"{' and '.join(given)} exclude each other.", "give one of them")
    if not given:
        return None
    library()
    if given == ["regex"]:
        return _regex(regex)
    return _grammar(grammar) if given == ["grammar"] else _schema(_ANY_OBJECT if schema is None else schema)


def _schema(given: Any) -> Wanted:
    model = given if isinstance(given, type) and issubclass(given, BaseModel) else None
    made = DESCRIBERS.describe("schema", _plain(given if model is None else _schema_of(model)))
    return Wanted("schema", made.grammar, model, made.sought)


def normalised_schema(given: Any) -> Any:
    """A JSON Schema (an object, true, false, or the path of a JSON file) as it is enforced, without annotations.

    Raises:
        InputError: E612 to E615.
        ToolError: E619, llguidance is not installed; E647, no process can be started for it.
    """
    library()
    return DESCRIBERS.normalise(_plain(given))


def _schema_of(model: type[BaseModel]) -> Any:
    try:
        return model.model_json_schema()
    except Exception as error:  # pydantic's, of several classes, for what has no schema
        raise no_schema(model.__name__, str(error)) from error


def _plain(given: Any) -> bytes:
    """A schema, or what the file of one holds, as JSON of bounded length."""
    if isinstance(given, str | Path):
        given = read_json_schema(Path(given))
    if not isinstance(given, bool | Mapping):
        raise no_schema("schema", f"a {type(given).__name__} was given")
    try:
        text = json.dumps(given, allow_nan=False).encode()
    except RecursionError as error:
        raise too_much("schema", "it is nested too deeply, or holds itself") from error
    except (TypeError, ValueError) as error:
        raise no_schema("schema", str(error)) from error
    return _limited("schema", text)


def _regex(given: Any) -> Wanted:
    if not isinstance(given, str):
        raise malformed("regex", "it is not text")
    made = DESCRIBERS.describe("regex", _encoded("regex", given))
    return Wanted("regex", made.grammar)


def _grammar(given: Any) -> Wanted:
    text = read_grammar(given) if isinstance(given, Path) else given
    if not isinstance(text, str):
        raise malformed("grammar", "it is not text")
    made = DESCRIBERS.describe("grammar", _encoded("grammar", text))
    return Wanted("grammar", made.grammar)


def _encoded(where: str, text: str) -> bytes:
    try:
        return _limited(where, text.encode())
    except UnicodeEncodeError as error:
        raise malformed(where, "it is not valid Unicode") from error


def _limited(where: str, text: bytes) -> bytes:
    if len(text) > MOST_SCHEMA_BYTES:
        raise too_much(where, f"it has more than {MOST_SCHEMA_BYTES:,} bytes")
    return text


def read_json_schema(path: Path) -> Any:
    """A JSON Schema's file as it was written, of at most ``MOST_SCHEMA_BYTES``.

    Raises:
        InputError: E611, it cannot be read, or is not JSON.
    """
    try:
        return parse_json(limited_bytes(path, MOST_SCHEMA_BYTES))
    except (OSError, ValueError) as error:
        raise unreadable(str(path), str(error)) from error


def read_grammar(path: Path) -> str:
    """The text of a grammar's file, of at most ``MOST_SCHEMA_BYTES``.

    Raises:
        InputError: E611, it cannot be read, or is not UTF-8.
    """
    try:
        return limited_bytes(path, MOST_SCHEMA_BYTES).decode()
    except (OSError, ValueError) as error:
        raise unreadable(str(path), str(error)) from error
