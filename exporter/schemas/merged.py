"""Two schemas that one value is to fulfil, as one schema, where that can be written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

from edgec.exporter.schemas.refusals import not_compiled, too_large_automaton

_PROPERTIES: Final = ("properties", "additionalProperties", "patternProperties")
_ITEMS: Final = ("items", "prefixItems")
_LOWS: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_HIGHS: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_MOST_ALTERNATIVES: Final = 256
_MOST_STEPS: Final = 20_000
SchemaNode = dict[str, Any]


class SchemaMerge:
    """Merges schemas of one normalised document."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        """Merge with the document's ``$defs``."""
        self._definitions, self._steps = definitions, 0

    def flat(self, node: SchemaNode) -> SchemaNode | bool:
        """A schema without allOf, and with ``$ref`` only where nothing else stands beside it.

        Raises:
            InputError: E710, its parts cannot be written as one; E711, that takes too many steps.
        """
        parts = node.get("allOf", [])
        rest: Any = {key: value for key, value in node.items() if key != "allOf"}
        if "$ref" in rest and (parts or len(rest) > 1):
            target = self._definitions[rest.pop("$ref").removeprefix("#/$defs/")]
            parts = [target, *parts]
        for part in parts:
            rest = self.merged(rest, part)
        return rest if isinstance(rest, bool) else dict(rest)

    def merged(self, one: Any, other: Any) -> Any:
        """What fulfils both."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise too_large_automaton("schema", "its parts refer to each other too often")
        if isinstance(one, bool) or isinstance(other, bool):
            return False if one is False or other is False else (other if one is True else one)
        if one == other or not other:
            return one
        if not one:
            return self.flat(other)
        left, right = self._plain(one), self._plain(other)
        if isinstance(left, bool) or isinstance(right, bool):
            return self.merged(left, right)
        _check_apart(left, right)
        out = dict(left)
        for key, value in right.items():
            out[key] = self._both(key, out[key], value) if key in out else value
        return out

    def _plain(self, node: SchemaNode) -> SchemaNode | bool:
        flat = self.flat(node)
        if isinstance(flat, dict) and "$ref" in flat:
            target = self._definitions[flat["$ref"].removeprefix("#/$defs/")]
            return target if isinstance(target, bool) else self.flat(target)
        if isinstance(flat, dict) and "const" in flat:
            return {**{key: value for key, value in flat.items() if key != "const"}, "enum": [flat["const"]]}
        return flat

    def _both(self, key: str, one: Any, other: Any) -> Any:
        if key in _LOWS or key in _HIGHS:
            return max(one, other) if key in _LOWS else min(one, other)
        rule = _RULES.get(key)
        if rule is not None:
            return rule(one, other)
        if key == "properties":
            shared = {name: self.merged(one[name], part) if name in one else part for name, part in other.items()}
            return {**one, **shared}
        if key in ("items", "additionalProperties"):
            return self.merged(one, other)
        if key == "anyOf" and len(one) * len(other) <= _MOST_ALTERNATIVES:
            return [self.merged(left, right) for left, right in product(one, other)]
        if one == other:
            return one
        raise not_compiled(key, "schema", "two parts of an allOf say it in different ways")


def _types(one: Any, other: Any) -> list[str]:
    left, right = ([names] if isinstance(names, str) else names for names in (one, other))
    shared = [name for name in left if name in right]
    whole = "integer" in (*left, *right) and "integer" not in shared
    fits = ("number" in left and "integer" in right) or ("number" in right and "integer" in left)
    return [*shared, *(["integer"] if whole and fits and "number" not in shared else [])]


def _values(one: list[Any], other: list[Any]) -> list[Any]:
    known = {json.dumps(value, sort_keys=True) for value in other}
    return [value for value in one if json.dumps(value, sort_keys=True) in known]


def _patterns(one: Any, other: Any) -> list[str]:
    return [pattern for part in (one, other) for pattern in ([part] if isinstance(part, str) else part)]


_RULES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "type": _types,
    "enum": _values,
    "pattern": _patterns,
    "required": lambda one, other: [*one, *(name for name in other if name not in one)],
}


def _check_apart(one: SchemaNode, other: SchemaNode) -> None:
    """Refuse two objects or lists whose keywords are about what the other one does not name."""
    mine, theirs = ({key: node[key] for key in _PROPERTIES if key in node} for node in (one, other))
    if mine and theirs and mine != theirs and any(len(keys) > 1 or "properties" not in keys for keys in (mine, theirs)):
        raise not_compiled("allOf", "schema", "two of its parts name properties, and one says something of all others")
    items, others = ({key: node[key] for key in _ITEMS if key in node} for node in (one, other))
    if items and others and items != others and (len(items) > 1 or len(others) > 1 or items.keys() != others.keys()):
        raise not_compiled("allOf", "schema", "two of its parts describe the items of a list")
