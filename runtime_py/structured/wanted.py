"""What a caller asks of a text's structure: a schema, any JSON, a regular expression or a grammar, checked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from edgec.bundle.limited_json import first_fault, limited_bytes, parse_json
from edgec.bundle.schemas import MOST_SCHEMA_BYTES
from edgec.errors import InputError
from edgec.runtime_py.structured.engine import fault_of, library
from edgec.runtime_py.structured.refusals import (
    contradiction,
    empty,
    malformed,
    no_schema,
    not_enforced,
    refused_value,
    too_much,
    unreadable,
)
from edgec.runtime_py.structured.schema.normalise import normalise

# Space between values: none, one blank, or a line with its indentation. Unbounded, a model may write nothing else.
_WHITESPACE: Final = r" |\n[ ]{0,16}|\n\t{0,8}"
# Without \u, so that no free name can spell a declared one.
_ESCAPES: Final = 'nrbtf\\"'
_MOST_SOUGHT: Final = 16
_ANY_OBJECT: Final = {"type": "object"}
_SPECIAL: Final = re.compile(r"<[^\s<>]*>|%json|%llguidance|@")
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|//[^\n]*|\#[^\n]*')


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
        ToolError: E619, llguidance is not installed.
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
    if model is not None:
        given = _schema_of(model)
    schema, patterns = _normalised(given)
    # The library takes its options from an object only.
    text = json.dumps({"allOf": [schema]} if isinstance(schema, bool) else schema)
    overrides = {"whitespace_pattern": _WHITESPACE, "json_allowed_escapes": _ESCAPES, "lenient": False}
    made = library().LLMatcher.grammar_from_json_schema(text, overrides={**overrides, "coerce_one_of": False})
    if fault := fault_of(made):
        raise _schema_fault(" ".join(fault.split()))
    return Wanted("schema", made, model, tuple(_sought(patterns)))


def normalised_schema(given: Any) -> Any:
    """A JSON Schema (an object, true, false, or the path of a JSON file) as it is enforced, without annotations.

    Raises:
        InputError: E612 to E615.
        ToolError: E619, llguidance is not installed.
    """
    library()
    return _normalised(given)[0]


def _normalised(given: Any) -> tuple[Any, dict[str, None]]:
    """A schema as it is enforced, and the patterns in it."""
    if isinstance(given, str | Path):
        given = read_json_schema(Path(given))
    if not isinstance(given, bool | Mapping):
        raise no_schema("schema", f"a {type(given).__name__} was given")
    patterns: dict[str, None] = {}

    def checked(pattern: str) -> str:
        patterns[pattern] = None
        made = library().LLMatcher.grammar_from_json_schema({"type": "string", "pattern": pattern})
        fault = " ".join(fault_of(made).split())
        return "" if "nsatisfiable" in fault else fault

    return normalise(_plain(given), checked), patterns


def _sought(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in [pattern for pattern in patterns if not pattern.startswith("^")][:_MOST_SOUGHT]:
        made = str(library().LLMatcher.grammar_from_regex(pattern.removesuffix("$")))
        if not fault_of(made):
            yield made


def _schema_of(model: type[BaseModel]) -> Any:
    try:
        return model.model_json_schema()
    except Exception as error:  # pydantic's, of several classes, for what has no schema
        raise no_schema(model.__name__, str(error)) from error


def _plain(given: Any) -> Any:
    """A schema as plain data within the limits of JSON files."""
    try:
        text = json.dumps(given, allow_nan=False).encode()
        if len(text) > MOST_SCHEMA_BYTES:
            raise too_much("schema", f"it has more than {MOST_SCHEMA_BYTES:,} bytes")
        return parse_json(text)
    except RecursionError as error:
        raise too_much("schema", "it is nested too deeply, or holds itself") from error
    except (TypeError, ValueError) as error:
        raise no_schema("schema", str(error)) from error


def _schema_fault(fault: str) -> InputError:
    """What the library says of a schema that was checked before."""
    if "nsatisfiable" in fault or "is empty" in fault:
        return empty("schema", fault)
    named = {
        "min/maxProperties": "maxProperties",
        "attern propert": "patternProperties",
        "patternProperties": "patternProperties",
        "multipleOf": "multipleOf",
        "circular references": "$ref",
        "Schema intersection": "allOf",
    }
    keyword_at_fault = next((keyword for words, keyword in named.items() if words in fault), None)
    return not_enforced(keyword_at_fault, "schema", fault) if keyword_at_fault else too_much("schema", fault)


def _regex(given: Any) -> Wanted:
    if not isinstance(given, str) or len(given.encode(errors="replace")) > MOST_SCHEMA_BYTES:
        raise malformed("regex", "it is not text, or too long")
    made = library().LLMatcher.grammar_from_regex(given)
    if fault := fault_of(made):
        raise malformed("regex", " ".join(fault.split()))
    return Wanted("regex", made)


def _grammar(given: Any) -> Wanted:
    text = read_grammar(given) if isinstance(given, Path) else given
    if not isinstance(text, str) or len(text.encode(errors="replace")) > MOST_SCHEMA_BYTES:
        raise malformed("grammar", "it is not text, or too long")
    special = _SPECIAL.search(_QUOTED.sub("", text))
    if special and "::=" not in text:
        raise malformed("grammar", f"{special[0]} is not supported: no special tokens, schemas or options inside")
    try:
        made = library().grammar_from("gbnf" if "::=" in text else "lark", text)
    except ValueError as error:
        raise malformed("grammar", str(error)) from error
    if fault := fault_of(made):
        raise malformed("grammar", " ".join(fault.split()))
    return Wanted("grammar", json.dumps({"grammars": [{"lark_grammar": made}]}))


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
