"""The tools a model may call: checked, each with the JSON Schema of its arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final

from edgec.bundle.limited_json import JsonKind, parse_json, read_json
from edgec.errors import InputError

MOST_TOOLS: Final = 128
_MOST_BYTES: Final = 1 << 20
_MOST_WHY: Final = 300
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
_EMPTY: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
Given = Mapping[str, Any] | Callable[..., Any]


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: what a call names.
        parameters: the JSON Schema of its arguments, an object; closed unless it says otherwise.
        definition: the tool in OpenAI's form, as the chat template sees it.
    """

    name: str
    parameters: Mapping[str, Any]
    definition: Mapping[str, Any]


def tools_of(given: Sequence[Given] | None) -> tuple[Tool, ...]:
    """Check what is given as tools.

    Args:
        given: dicts in OpenAI's form, or functions with type hints and a docstring that describes each argument.

    Raises:
        InputError: E620, one is not a tool; E621, two have the same name.
    """
    if given is None:
        return ()
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise no_tool("tools", "they are a list")
    if len(given) > MOST_TOOLS:
        raise no_tool("tools", f"there are {len(given)}, at most {MOST_TOOLS} can be given")
    made = tuple(_tool(one, f"tools[{place}]") for place, one in enumerate(given))
    names = [tool.name for tool in made]
    for name in names:
        if names.count(name) > 1:
            raise _equal_names(name)
    return made


def tools_in(path: Path) -> list[Any]:
    """The tools of a JSON file, not checked.

    Raises:
        InputError: E629, it holds no list.
    """
    kind = JsonKind(
        "The file of tools cannot be read.",
        "give a JSON list of tools (docs/structured-output.md)",
        "E629",
    )
    held = read_json(path, kind)
    if not isinstance(held, list):
        raise _unreadable(str(path), "it holds no list")
    return held


def _tool(given: Any, where: str) -> Tool:
    if isinstance(given, FunctionType | MethodType):
        given = _described(given, where)
    if not isinstance(given, Mapping):
        raise no_tool(where, f"a {type(given).__name__} was given")
    plain = _given(_plain(given, where))
    function = plain.get("function", plain)
    if plain.get("type", "function") != "function" or not isinstance(function, dict):
        raise no_tool(where, "its type is not function")
    function = _given(function)
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise no_tool(where, f"its name is {name!r:.80}; letters, digits and _.- are allowed, at most 64")
    if not isinstance(function.get("description", ""), str):
        raise no_tool(where, "its description is not text")
    parameters = function.get("parameters") or dict(_EMPTY)
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise no_tool(f"{where}, {name}", "its parameters are not the JSON Schema of an object")
    shown = {"description": "", **function, "parameters": parameters}
    # A schema of declared arguments alone, unless it declares none or says what others may be.
    properties, more = parameters.get("properties"), {"additionalProperties", "patternProperties", "$ref", "allOf"}
    closed = isinstance(properties, dict) and not more & parameters.keys()
    schema = {"type": "object", **parameters} | ({"additionalProperties": False} if closed else {})
    return Tool(name, schema, {"type": "function", "function": shown})


def _given(held: Mapping[str, Any]) -> dict[str, Any]:
    """An object without the values that clients send as null because nobody chose them."""
    return {name: value for name, value in held.items() if value is not None}


def _plain(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A definition as plain JSON within the limits of files."""
    try:
        text = json.dumps(given, allow_nan=False).encode()
        if len(text) > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        return dict(parse_json(text))
    except (TypeError, ValueError, RecursionError) as cause:
        raise no_tool(where, str(cause)) from cause


def _described(function: FunctionType | MethodType, where: str) -> dict[str, Any]:
    """A Python function in OpenAI's form, read by transformers from type hints and docstring."""
    from transformers.utils.chat_template_utils import (
        DocstringParsingException,
        TypeHintParsingException,
        get_json_schema,
    )

    try:
        described = get_json_schema(function)
    except (DocstringParsingException, TypeHintParsingException, NameError, TypeError) as cause:
        raise no_tool(f"{where}, {function.__name__}", " ".join(str(cause).split())) from cause
    declared = {**described["function"], "parameters": _nullable(described["function"]["parameters"])}
    return {"type": "function", "function": declared}


def _nullable(schema: Any) -> Any:
    """A schema where ``nullable``, as transformers writes it, is said as JSON Schema says it."""
    if isinstance(schema, list):
        return [_nullable(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    held = {key: _nullable(value) for key, value in schema.items() if key != "nullable"}
    if not schema.get("nullable"):
        return held
    notes = {key: held.pop(key) for key in ("description",) if key in held}
    return {"anyOf": [held, {"type": "null"}], **notes}


def no_tool(where: str, why: str) -> InputError:
    """Something given as a tool that is none."""
    fix = 'give {"type": "function", "function": {"name": ..., "parameters": SCHEMA}}, or a function with type hints'
    return InputError("This is not a tool.", where, why[:_MOST_WHY], fix, "E620")


def _equal_names(name: str) -> InputError:
    """Two tools that a call could not tell apart."""
    return InputError(f"Two tools are named {name!r}.", "tools", "a call names its tool", "rename one", "E621")


def _unreadable(where: str, why: str) -> InputError:
    """A file that holds no list of tools."""
    fix = "give a JSON file with a list of tools in OpenAI's form (docs/structured-output.md)"
    return InputError("The file of tools cannot be read.", where, why[:_MOST_WHY], fix, "E629")
