"""Calls as Gemma writes them: ``call:weather{city:<|"|>Oslo<|"|>,days:3}``, with keys bare and marks for quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edgec.bundle.limited_json import parse_json
from edgec.bundle.tools import Tool, no_tool
from edgec.runtime_py.generation.calls import ToolCall
from edgec.runtime_py.messages.bodies.fields import NOTES, in_order, properties_in, properties_of
from edgec.runtime_py.messages.sheet import Sheet, one_of
from edgec.runtime_py.structured.refusals import not_enforced

_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+")
_SCALAR: Final = re.compile(r"[^,{}\[\]]+")
_DEEPEST: Final = 64


@dataclass(frozen=True)
class GemmaCall:
    """One call.

    Attributes:
        quote: the mark on both sides of a text.
    """

    quote: str

    def rule(self, tools: Sequence[Tool], sheet: Sheet, many: bool = True) -> str:
        """The expression of one call."""
        return one_of([self._call(tool, sheet) for tool in tools])

    def _call(self, tool: Tool, sheet: Sheet) -> str:
        where = f"tool {tool.name}"
        return f'{json.dumps(f"call:{tool.name}")} "{{" {self._fields(properties_of(tool, where), sheet, where)} "}}"'

    def _fields(self, properties: Any, sheet: Sheet, where: str) -> str:
        made = []
        for name, schema, required in properties:
            if not _KEY.fullmatch(name):
                raise no_tool(where, f"{name!r:.60} cannot be written as a key in this model's notation of calls")
            made.append((sheet.rule(f"{json.dumps(f'{name}:')} {self._value(schema, sheet, where)}"), required))
        return in_order(made, sheet, '","')

    def _value(self, schema: Any, sheet: Sheet, where: str) -> str:
        if not isinstance(schema, Mapping):
            raise not_enforced("properties", where, "each argument needs a schema with a type in this notation")
        if "anyOf" in schema:
            _only(schema, {"anyOf"}, where)
            return one_of([self._value(each, sheet, where) for each in schema["anyOf"]])
        if any(isinstance(each, str) for each in schema.get("enum", [])) or isinstance(schema.get("const"), str):
            return self._choice(schema, sheet, where)
        match schema.get("type"):
            case "string":
                _only(schema, set(), where)
                return self._text(sheet)
            case "array":
                _only(schema, {"items"}, where)
                item = sheet.rule(self._value(schema.get("items"), sheet, where))
                return f'"[" ({item} ("," {item})*)? "]"'
            case "object":
                return f'"{{" {self._fields(properties_in(schema, where), sheet, where)} "}}"'
            case "number" | "integer" | "boolean" | "null":
                return sheet.json(dict(schema), where)
        raise not_enforced("type", where, "each argument needs one type in this model's notation of calls")

    def _text(self, sheet: Sheet) -> str:
        inside = "TEXT" if sheet.starts_special(self.quote) else r"/[^<]*/"
        return f"{sheet.text(self.quote)} {inside} {sheet.text(self.quote)}"

    def _choice(self, schema: Mapping[str, Any], sheet: Sheet, where: str) -> str:
        _only(schema, {"enum", "const"}, where)
        values = schema.get("enum", [schema.get("const")])
        texts = [sheet.text(f"{self.quote}{value}{self.quote}") for value in values if isinstance(value, str)]
        others = [json.dumps(json.dumps(value)) for value in values if not isinstance(value, str)]
        return one_of([*texts, *others])

    def read(self, text: str) -> list[ToolCall]:
        """The call of a text. Raises ValueError."""
        head, brace, rest = text.strip().partition("{")
        if not brace or not head.startswith("call:"):
            raise ValueError("a call is call:NAME{...}")
        reader = _Reader("{" + rest, self.quote)
        arguments = reader.value(0)
        if not reader.ended:
            raise ValueError("something follows the call")
        return [ToolCall(head.removeprefix("call:").strip(), arguments)]


def _only(schema: Mapping[str, Any], held: set[str], where: str) -> None:
    for keyword in schema:
        if keyword not in held | NOTES:
            raise not_enforced(keyword, where, "this model's notation of calls is not JSON, and cannot be held to it")


class _Reader:
    """Reads values of the notation from a text."""

    def __init__(self, text: str, quote: str) -> None:
        self._text, self._quote, self._place = text, quote, 0

    @property
    def ended(self) -> bool:
        return not self._text[self._place :].strip()

    def _take(self, wanted: str) -> bool:
        while self._text[self._place : self._place + 1].isspace():
            self._place += 1
        follows = self._text.startswith(wanted, self._place)
        self._place += len(wanted) if follows else 0
        return follows

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if self._take(self._quote):
            return self._quoted()
        if self._take("{"):
            return dict(self._items("}", depth, keyed=True))
        if self._take("["):
            return [value for _, value in self._items("]", depth, keyed=False)]
        scalar = _SCALAR.match(self._text, self._place)
        if not scalar:
            raise ValueError("a value is missing")
        self._place = scalar.end()
        return parse_json(scalar[0].strip().encode())

    def _quoted(self) -> str:
        end = self._text.find(self._quote, self._place)
        if end < 0:
            raise ValueError("a text does not end")
        text, self._place = self._text[self._place : end], end + len(self._quote)
        return text

    def _items(self, close: str, depth: int, *, keyed: bool) -> list[tuple[str, Any]]:
        out: list[tuple[str, Any]] = []
        while not self._take(close):
            if out and not self._take(","):
                raise ValueError(f"{close} is missing")
            out.append((self._key() if keyed else "", self.value(depth + 1)))
        return out

    def _key(self) -> str:
        if self._take(self._quote):
            key = self._quoted()
        else:
            key_match = _KEY.match(self._text, self._place)
            key = key_match[0] if key_match else ""
            self._place += len(key)
        if not key or not self._take(":"):
            raise ValueError("a key is missing")
        return key
