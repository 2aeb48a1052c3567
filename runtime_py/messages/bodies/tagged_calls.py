"""Calls in tags, as Qwen 3.5 and Qwen3-Coder write them: ``<function=NAME>``, ``<parameter=KEY>`` and the value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.limited_json import parse_json
from edgec.bundle.tools import Tool
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.messages.bodies.fields import NOTES, is_free_boolean, properties_of
from edgec.runtime_py.messages.sheet import Sheet, one_of
from edgec.runtime_py.structured.refusals import not_enforced

_END: Final = "\n</parameter>\n"
# Qwen 3.5's template shows these in earlier calls as Python writes them, and the model after it.
_WORDS: Final[Mapping[str, Any]] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class TaggedCall:
    """One call; texts stand as they are, other values as JSON."""

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of one call."""
        return one_of([self._call(tool, sheet) for tool in tools])

    def _call(self, tool: Tool, sheet: Sheet) -> str:
        where, parts = f"tool {tool.name}", [json.dumps(f"\n<function={tool.name}>\n")]
        for name, schema, required in properties_of(tool, where):
            field = f"{json.dumps(f'<parameter={name}>' + chr(10))} {_value(schema, sheet, where)}"
            parts.append(sheet.rule(field) if required else f"({sheet.rule(field)})?")
        return " ".join([*parts, json.dumps("</function>\n")])

    def read(self, text: str) -> list[ToolCall]:
        """The call of a text; a value is text where it is not JSON. Raises ValueError."""
        head, bracket, rest = text.strip().removeprefix("<function=").partition(">")
        if not bracket or not text.strip().startswith("<function="):
            raise ValueError("a call begins with <function=NAME>")
        arguments: dict[str, Any] = {}
        while not (rest := rest.lstrip()).startswith("</function>"):
            key, bracket, rest = rest.removeprefix("<parameter=").partition(">")
            value, ended, rest = rest.partition("</parameter>")
            if not bracket or not ended:
                raise ValueError("a parameter does not end")
            arguments[key.strip()] = value.removeprefix("\n").removesuffix("\n")
        return [ToolCall(head.strip(), arguments)]

    def typed(self, call: ToolCall, tool: Tool) -> ToolCall:
        """The call with its values as the tool's schema has them; texts stay texts. Raises ValueError."""
        schemas: Mapping[str, Any] = tool.parameters.get("properties", {})
        given = {key: _typed(value, schemas.get(key)) for key, value in call.arguments.items()}
        return ToolCall(call.name, given, call.id)


def _is_text(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "string"


def _value(schema: Any, sheet: Sheet, where: str) -> str:
    if is_free_boolean(schema):
        return f'("true" | "false" | "True" | "False") {json.dumps(_END)}'
    if not _is_text(schema):
        return f"{sheet.json(schema, where)} {json.dumps(_END)}"
    if "enum" in schema and not schema.keys() - {"enum", *NOTES}:
        return f"{one_of([json.dumps(str(each)) for each in schema['enum']])} {json.dumps(_END)}"
    for keyword in schema:
        if keyword not in NOTES:
            raise not_enforced(keyword, where, "this model's notation of calls is not JSON, and cannot be held to it")
    return sheet.rule(f"TEXT {json.dumps(_END)}", lazy=True)


def _typed(value: str, schema: Any) -> Any:
    if _is_text(schema):
        return value
    return _WORDS[value] if value in _WORDS else parse_json(value.encode())
