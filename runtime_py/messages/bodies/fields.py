"""Arguments one after the other, for notations that are not JSON as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from edgec.bundle.tools import Tool, no_tool
from edgec.runtime_py.messages.sheet import Sheet
from edgec.runtime_py.structured.refusals import not_enforced

# Keywords that say nothing of what may be written, beside the type.
NOTES: Final = frozenset({"type", "title", "description", "default", "examples"})
_HELD: Final = NOTES | {"properties", "required", "additionalProperties"}


def properties_of(tool: Tool, where: str) -> Iterator[tuple[str, Any, bool]]:
    """Each argument of a tool with its schema, and whether it must come. Raises InputError E613."""
    yield from properties_in(tool.parameters, where)


def properties_in(schema: Any, where: str) -> Iterator[tuple[str, Any, bool]]:
    """The properties of an object's schema that says nothing else.

    Raises:
        InputError: E613, it has a keyword that this notation cannot be held to; E620, it is not a schema.
    """
    for keyword in schema:
        if keyword not in _HELD:
            raise not_enforced(keyword, where, "this model's notation of calls is not JSON, and cannot be held to it")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise no_tool(where, "properties is an object, and required a list")
    if schema.get("additionalProperties", False) is not False:
        raise not_enforced("additionalProperties", where, "free names cannot be held to in this notation of calls")
    if missing := [name for name in required if name not in properties]:
        raise not_enforced("required", where, f"{missing[0]!r:.60} is not among the properties")
    for name, held in properties.items():
        yield name, held, name in required


def is_free_boolean(schema: Any) -> bool:
    """Whether a schema takes both truth values."""
    return isinstance(schema, dict) and schema.get("type") == "boolean" and not {"enum", "const"} & schema.keys()


def in_order(fields: Sequence[tuple[str, bool]], sheet: Sheet, separator: str) -> str:
    """The expression of fields in their order, those that need not come left out or not.

    Args:
        fields: each one's expression, and whether it must come.
        sheet: takes the rules.
        separator: the expression between two fields.
    """
    # rest: what may follow a field; first: what may come where none was written yet.
    rest, first = '""', '""'
    for expression, required in reversed(fields):
        after, begin = rest, f"{expression} {rest}"
        rest = sheet.rule(f"{separator} {expression} {after}" + ("" if required else f" | {after}"))
        first = sheet.rule(begin + ("" if required else f" | {first}"))
    return first
