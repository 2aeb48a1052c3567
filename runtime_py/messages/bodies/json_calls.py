"""Calls written as JSON: an object, a list of objects, or a name with an object after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.bundle.limited_json import parse_json
from edgec.bundle.tools import Tool
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.messages.sheet import Sheet, one_of

_ARGUMENTS = ("arguments", "parameters")
# Of a call, as Mistral's models write it.
_ID = "/[a-zA-Z0-9]{9}/"


@dataclass(frozen=True)
class JsonCall:
    """``{"name": NAME, "arguments": {...}}``.

    Attributes:
        key: the key of the arguments.
        opened: text that the opening marker has already.
    """

    key: str = "arguments"
    opened: str = ""

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of one call."""
        return one_of([self._call(tool, sheet) for tool in tools])

    def _call(self, tool: Tool, sheet: Sheet) -> str:
        begin = ["WS"] if self.opened else ["WS", '"{"', "BLANK", r'"\"name\":"', "BLANK"]
        middle = [f'"\\"{tool.name}\\","', "BLANK", f'"\\"{self.key}\\":"', "BLANK"]
        return " ".join([*begin, *middle, sheet.json(tool.parameters, f"tool {tool.name}"), "BLANK", '"}"', "WS"])

    def read(self, text: str) -> list[ToolCall]:
        """The call of a text. Raises ValueError."""
        return [_call_of(parse_json((self.opened + text).encode()))]


@dataclass(frozen=True)
class JsonList:
    """``[{"name": NAME, "arguments": {...}}, ...]``, Mistral's with an id of nine characters in each."""

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of all calls, or of a single one."""
        call = sheet.rule(one_of([self._call(tool, sheet) for tool in tools]))
        more = f'("," BLANK {call})*' if many else ""
        return f'WS "[" BLANK {call} {more} BLANK "]" WS'

    def _call(self, tool: Tool, sheet: Sheet) -> str:
        name = f'"{{" BLANK "\\"name\\":" BLANK "\\"{tool.name}\\"," BLANK "\\"arguments\\":" BLANK'
        number = rf'("," BLANK "\"id\":" BLANK "\"" {_ID} "\"")?'
        return f'{name} {sheet.json(tool.parameters, f"tool {tool.name}")} {number} BLANK "}}"'

    def read(self, text: str) -> list[ToolCall]:
        """The calls of a text. Raises ValueError."""
        held = parse_json(text.encode())
        calls = held if isinstance(held, list) else [held]
        if not calls:
            raise ValueError("the list of calls is empty")
        return [_call_of(call) for call in calls]


@dataclass(frozen=True)
class NamedJson:
    """``NAME``, a separator, and the arguments as an object.

    Attributes:
        between: the separator.
        skipped: what may stand between name and separator, with its own text after it, and is not read.
    """

    between: str
    skipped: str = ""

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of one call."""
        return one_of([self._call(tool, sheet) for tool in tools])

    def _call(self, tool: Tool, sheet: Sheet) -> str:
        arguments = sheet.json(tool.parameters, f"tool {tool.name}")
        if not self.skipped:
            return f"{sheet.text(tool.name + self.between)} {arguments}"
        own_id = f"({sheet.text(self.skipped)} {_ID})?"
        return f"{sheet.text(tool.name)} {own_id} {sheet.text(self.between)} {arguments}"

    def read(self, text: str) -> list[ToolCall]:
        """The call of a text. Raises ValueError."""
        name, separator, arguments = text.partition(self.between)
        if not separator:
            raise ValueError(f"{self.between.strip()} is missing after the name")
        name = name.partition(self.skipped)[0] if self.skipped else name
        return [_checked(name.strip(), parse_json(arguments.encode()))]


def _call_of(held: Any) -> ToolCall:
    if not isinstance(held, dict):
        raise ValueError("a call is an object")
    held = held["function"] if isinstance(held.get("function"), dict) else held
    arguments = next((held[key] for key in _ARGUMENTS if key in held), None)
    return _checked(held.get("name"), arguments)


def _checked(name: Any, arguments: Any) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise ValueError("the call has no name")
    if not isinstance(arguments, dict):
        raise ValueError("the call's arguments are not an object")
    return ToolCall(name, arguments)
