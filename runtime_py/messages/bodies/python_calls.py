"""Calls written as Python writes them, in a list: ``[weather(city="Oslo", days=3)]``, as LFM2 does."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.tools import Tool, no_tool
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.messages.bodies.fields import NOTES, in_order, is_free_boolean, properties_of
from edgec.runtime_py.messages.bodies.json_calls import JsonList
from edgec.runtime_py.messages.sheet import Sheet, one_of

_LONGEST: Final = 1 << 16
_SINGLE: Final = r"""/'([^'\\\n]|\\['"\\n])*'/"""
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class PythonCalls:
    """A list of calls with named arguments; a text that is JSON is read as such, too."""

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of all calls: values are JSON, but for the words True, False and None."""
        call = sheet.rule(one_of([self._call(tool, sheet) for tool in tools]))
        more = f'("," BLANK {call})*' if many else ""
        return f'"[" {call} {more} "]"'

    def _call(self, tool: Tool, sheet: Sheet) -> str:
        where = f"tool {tool.name}"
        if not _named(tool.name):
            raise no_tool(where, "it is not a name in Python, as this model writes calls")
        fields = [
            (sheet.rule(f"{json.dumps(f'{name}=')} {self._value(schema, sheet, where)}"), required)
            for name, schema, required in properties_of(tool, where)
        ]
        for name, _, _ in properties_of(tool, where):
            if not name.isidentifier():
                raise no_tool(where, f"{name!r:.60} cannot name an argument in Python, as this model writes calls")
        return f'{json.dumps(tool.name + "(")} {in_order(fields, sheet, chr(34) + "," + chr(34) + " BLANK")} ")"'

    @staticmethod
    def _value(schema: Any, sheet: Sheet, where: str) -> str:
        if is_free_boolean(schema):
            return '("True" | "False")'
        held = sheet.json(schema, where)
        # LFM2.5's own template writes texts in single quotes, and the model after it.
        free = isinstance(schema, dict) and schema.get("type") == "string" and not schema.keys() - NOTES
        return f"({held} | {_SINGLE})" if free else held

    def read(self, text: str) -> list[ToolCall]:
        """The calls of a text. Raises ValueError."""
        stripped = text.strip()
        if stripped.startswith(("[{", "{")):
            return JsonList().read(stripped)
        if len(stripped) > _LONGEST:
            raise ValueError(f"the call is longer than {_LONGEST:,} characters")
        try:
            tree = ast.parse(stripped, mode="eval").body
            nodes = tree.elts if isinstance(tree, ast.List) else [tree]
            calls = [_call_of(node) for node in nodes]
        except (SyntaxError, RecursionError, MemoryError) as cause:
            raise ValueError(f"it is not a list of calls: {cause}") from cause
        if not calls:
            raise ValueError("the list of calls is empty")
        return calls


def _call_of(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("a call has a name and named arguments")
    arguments = {keyword.arg: _value_of(keyword.value) for keyword in node.keywords if keyword.arg is not None}
    if len(arguments) < len(node.keywords):
        raise ValueError("an argument has no name, or two have the same")
    name = ast.unparse(node.func)
    if not _named(name):
        raise ValueError("a call begins with a name")
    return ToolCall(name, arguments)


def _named(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _value_of(node: ast.expr) -> Any:
    """A literal as JSON has it; nothing is executed."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value_of(item) for item in items]
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            names = [key.value for key in keys if isinstance(key, ast.Constant)]
            return {str(name): _value_of(value) for name, value in zip(names, values, strict=True)}
    raise ValueError("an argument is not a plain value")
