"""Whether no value fulfils two schemas at once: where that holds for all pairs, oneOf is anyOf."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_ALL: Final = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
_NUMBERS: Final = frozenset({"integer", "fraction"})
_DEEPEST: Final = 8
MOST_STEPS: Final = 1_000_000

Resolve = Callable[[Any], Any]


class TooManySteps(Exception):
    """The comparisons of one document take too long: nested lists on both sides multiply."""


class Disjointness:
    """Judges schemas of one document. What it calls disjoint is; some that are it does not see."""

    def __init__(self, resolve: Resolve) -> None:
        """Judge with a function that gives the target of a ``$ref``."""
        self._resolve = resolve
        self._steps = 0
        self._listed: dict[int, tuple[frozenset[str] | None, frozenset[str]]] = {}

    def all_hold(self, parts: Sequence[Any]) -> bool:
        """Whether no value fulfils two of some schemas.

        Raises:
            TooManySteps: finding out takes more than ``MOST_STEPS``, with all that was judged before.
        """
        listed = [self._of(part)[0] if isinstance(part, Mapping) else None for part in parts]
        if None not in listed:  # of constants alone no pair needs to be looked at
            values = [value for each in listed if each is not None for value in each]
            if len(values) == len(set(values)):
                return True
        pairs = ((one, other) for place, one in enumerate(parts) for other in parts[place + 1 :])
        return all(self.holds(one, other) for one, other in pairs)

    def holds(self, one: Any, other: Any, depth: int = 0) -> bool:
        """Whether no value fulfils both. Raises TooManySteps."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooManySteps
        if one is False or other is False:
            return True
        if depth > _DEEPEST or not isinstance(one, Mapping) or not isinstance(other, Mapping):
            return False
        for node, peer in ((one, other), (other, one)):
            if "$ref" in node:
                return self.holds(self._resolve(node["$ref"]), peer, depth + 1)
            if any(self.holds(part, peer, depth + 1) for part in _list(node, "allOf")):
                return True
            for key in ("anyOf", "oneOf"):
                if key in node and all(self.holds(part, peer, depth + 1) for part in _list(node, key)):
                    return True
        return self._plainly(one, other, depth)

    def _plainly(self, one: Mapping[str, Any], other: Mapping[str, Any], depth: int) -> bool:
        (values, kinds), (others, other_kinds) = self._of(one), self._of(other)
        if values is not None and others is not None and not values & others:
            return True
        shared = kinds & other_kinds
        if shared <= _NUMBERS and shared:
            return _apart(one, other) or _apart(other, one)
        return not shared or (shared == {"object"} and self._objects(one, other, depth))

    def _of(self, node: Mapping[str, Any]) -> tuple[frozenset[str] | None, frozenset[str]]:
        """The values that a part of the document lists, and its kinds; found once, since many pairs ask."""
        if id(node) not in self._listed:
            self._listed[id(node)] = _values(node), _kinds(node)
        return self._listed[id(node)]

    def _objects(self, one: Mapping[str, Any], other: Mapping[str, Any], depth: int) -> bool:
        keys = {key for node in (one, other) for key in _list(node, "required") if isinstance(key, str)}
        return any(self.holds(_property(one, key), _property(other, key), depth + 1) for key in keys)


def _list(node: Mapping[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []


def _property(node: Mapping[str, Any], key: str) -> Any:
    properties = node.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    return True if node.get("patternProperties") else node.get("additionalProperties", True)


def _values(node: Mapping[str, Any]) -> frozenset[str] | None:
    """The values of a schema that lists them, as text; None for any other."""
    listed = [node["const"]] if "const" in node else node.get("enum")
    return frozenset(_text(value) for value in listed) if isinstance(listed, list) else None


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)


def _kinds(node: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of value that may fulfil a schema; whole numbers are apart from fractions."""
    named = node.get("type", list(_ALL))
    kinds = {kind for name in ([named] if isinstance(named, str) else named) for kind in _kinds_of_type(name)}
    listed = [node["const"]] if "const" in node else node.get("enum")
    if isinstance(listed, list):
        kinds &= {kind for value in listed for kind in _kinds_of_value(value)}
    return frozenset(kinds)


def _kinds_of_type(name: Any) -> frozenset[str]:
    return _NUMBERS if name == "number" else frozenset({name}) & _ALL


def _kinds_of_value(value: Any) -> frozenset[str]:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float):
        return _NUMBERS
    kinds: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return frozenset({kinds.get(type(value), "null")})


def _apart(low: Mapping[str, Any], high: Mapping[str, Any]) -> bool:
    """Whether every number of ``low`` lies below every number of ``high``."""
    tops = [(low[key], key != "maximum") for key in ("maximum", "exclusiveMaximum") if _number(low.get(key))]
    bottoms = [(high[key], key != "minimum") for key in ("minimum", "exclusiveMinimum") if _number(high.get(key))]
    return any(top < bottom or (top == bottom and (out or out_too)) for top, out in tops for bottom, out_too in bottoms)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
