"""Whether a schema has a finite value at all: a node that requires itself has none, and text would never end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edgec.runtime_py.structured.schema.keywords import TYPES

_SCALARS: Final = ("null", "boolean", "integer", "number", "string")


def inhabited(schema: Any) -> bool:
    """Whether some finite value may fulfil a normalised schema; what it calls empty is."""
    names = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}
    users: dict[str, list[str]] = {}
    for name, node in names.items():
        for used in _references(node):
            users.setdefault(used, []).append(name)
    known: set[str] = set()
    # In order and without repetition: a definition is looked at again once something that it refers to is known.
    pending = dict.fromkeys(names)
    while pending:
        name = next(iter(pending))
        del pending[name]
        if name not in known and _may(names[name], known):
            known.add(name)
            pending |= dict.fromkeys(users.get(name, ()))
    return _may(schema, known)


def _references(node: Any) -> set[str]:
    """The definitions that a node refers to."""
    found, pending = set[str](), [node]
    while pending:
        one = pending.pop()
        if isinstance(one, Mapping):
            if isinstance(one.get("$ref"), str):
                found.add(one["$ref"].removeprefix("#/$defs/"))
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
    return found


def _may(node: Any, known: set[str]) -> bool:
    if isinstance(node, bool):
        return node
    if "$ref" in node and node["$ref"].removeprefix("#/$defs/") not in known:
        return False
    if not all(_may(part, known) for part in node.get("allOf", ())):
        return False
    if "anyOf" in node and not any(_may(part, known) for part in node["anyOf"]):
        return False
    named = node.get("type", TYPES)
    kinds = (named,) if isinstance(named, str) else tuple(named)
    if "enum" in node or "const" in node:
        values = [node["const"]] if "const" in node else node["enum"]
        return any(_is(value, kind) for value in values for kind in kinds)
    return any(kind in _SCALARS or _holds(node, kind, known) for kind in kinds)


def _holds(node: Mapping[str, Any], kind: str, known: set[str]) -> bool:
    """Whether a list or an object may have what it must have."""
    if kind == "object":
        return all(_may(_property(node, name), known) for name in node.get("required", ()))
    prefix = list(node.get("prefixItems", ()))[: node.get("minItems", 0)]
    rest = [node.get("items", True)] if node.get("minItems", 0) > len(prefix) else []
    return all(_may(part, known) for part in (*prefix, *rest))


def _property(node: Mapping[str, Any], name: str) -> Any:
    if name in node.get("properties", {}):
        return node["properties"][name]
    return True if node.get("patternProperties") else node.get("additionalProperties", True)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    if isinstance(value, int | float):
        return kind == "number" or (kind == "integer" and float(value).is_integer())
    kinds: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return kind == kinds.get(type(value))
