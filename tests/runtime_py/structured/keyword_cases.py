"""A schema for each keyword of JSON Schema 2020-12, with instances that fulfil it and instances that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KeywordCase:
    """A schema around one keyword.

    Attributes:
        name: the keyword, and what about it.
        schema: the schema.
        valid: instances that fulfil it, in the order that the engine writes properties in.
        invalid: instances that do not.
        refused: the keyword that edgec names when it refuses the schema; empty where it is enforced.
    """

    name: str
    schema: Any
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]
    refused: str = ""


_CLOSED = {"type": "object", "additionalProperties": False}
_NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}
_CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]}
_DOG = {"type": "object", "properties": {"kind": {"const": "dog"}, "tail": {"type": "boolean"}}, "required": ["kind"]}

CASES = (
    KeywordCase("type, one", {"type": "integer"}, (0, -12), ("a", 1.5, None, True)),
    KeywordCase("type, several", {"type": ["string", "null"]}, ("a", None), (1, [], {})),
    KeywordCase("enum", {"enum": ["a", 1, None, [1], {"b": True}]}, ("a", 1, None, [1], {"b": True}), ("b", 2, [2])),
    KeywordCase("enum under a type", {"type": "string", "enum": ["a", 1]}, ("a",), (1, "b")),
    KeywordCase("const", {"const": {"a": [1, "x"]}}, ({"a": [1, "x"]},), ({"a": [1]}, {"a": [1, "x", 2]}, 1)),
    KeywordCase(
        "properties",
        {"type": "object", "properties": {"a": {"type": "string"}}},
        ({}, {"a": "x"}, {"b": 1}),
        ({"a": 1}, [], "a"),
    ),
    KeywordCase("required", {"type": "object", "required": ["a", "b"]}, ({"a": 1, "b": 2},), ({}, {"a": 1}, {"b": 1})),
    KeywordCase(
        "additionalProperties, false",
        {**_CLOSED, "properties": {"a": {"type": "integer"}}},
        ({}, {"a": 1}),
        ({"b": 1}, {"a": 1, "b": 2}, {"a": "x"}),
    ),
    KeywordCase(
        "additionalProperties, a schema",
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
        ({"a": "x", "b": 1}, {"c": 3}),
        ({"b": "x"}, {"a": 1}),
    ),
    KeywordCase(
        "patternProperties",
        {"type": "object", "patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False},
        ({"n_a": 1}, {}),
        ({"n_a": "x"}, {"a": 1}),
    ),
    KeywordCase(
        "patternProperties beside properties",
        {"type": "object", "properties": {"n_a": {"maximum": 5}}, "patternProperties": {"^n_": {"type": "integer"}}},
        ({"n_a": 1}, {"z": "x"}),
        ({"n_a": "x"}, {"n_a": 7}, {"n_b": "y"}),
    ),
    KeywordCase(
        "propertyNames",
        {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}},
        ({"a": 1},),
        ({"A": 1}, {"a1": 1}),
        "propertyNames",
    ),
    KeywordCase("minProperties, one", {"type": "object", "minProperties": 1}, ({"a": 1},), ({},)),
    KeywordCase(
        "minProperties, two", {"type": "object", "minProperties": 2}, ({"a": 1, "b": 2},), ({"a": 1},), "minProperties"
    ),
    KeywordCase(
        "minProperties, met by required",
        {"type": "object", "required": ["a", "b"], "minProperties": 2},
        ({"a": 1, "b": 2},),
        ({"a": 1},),
    ),
    KeywordCase("maxProperties", {"type": "object", "maxProperties": 1}, ({}, {"a": 1}), ({"a": 1, "b": 2},)),
    KeywordCase("items", {"type": "array", "items": {"type": "integer"}}, ([], [1, 2]), (["a"], [1, "a"], {})),
    KeywordCase("items, false", {"type": "array", "items": False}, ([],), ([1],)),
    KeywordCase(
        "prefixItems",
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        ([], [1], [1, "a"], [1, "a", None]),
        (["a"], [1, 2]),
    ),
    KeywordCase(
        "prefixItems and items",
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}, "minItems": 1},
        ([1], [1, "a"]),
        ([], ["a"], [1, 2]),
    ),
    KeywordCase(
        "items, a list of draft 7",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "items": [{"type": "integer"}],
            "additionalItems": False,
        },
        ([1], "x"),
        (["a"], [1, 2]),
    ),
    KeywordCase("minItems", {"type": "array", "minItems": 2}, ([1, 2],), ([], [1])),
    KeywordCase("maxItems", {"type": "array", "maxItems": 2}, ([], [1, 2]), ([1, 2, 3],)),
    KeywordCase("uniqueItems", {"type": "array", "uniqueItems": True}, ([1, 2],), ([1, 1],), "uniqueItems"),
    KeywordCase("uniqueItems, false", {"type": "array", "uniqueItems": False}, ([1, 1],), ({},)),
    KeywordCase("contains", {"type": "array", "contains": {"const": 1}}, ([1],), ([], [2]), "contains"),
    KeywordCase(
        "minContains", {"type": "array", "contains": {"const": 1}, "minContains": 2}, ([1, 1],), ([1],), "contains"
    ),
    KeywordCase(
        "maxContains", {"type": "array", "contains": {"const": 1}, "maxContains": 1}, ([1],), ([1, 1],), "contains"
    ),
    KeywordCase("minimum", {"type": "integer", "minimum": 3}, (3, 400), (2, -5)),
    KeywordCase("maximum", {"type": "number", "maximum": 2.5}, (2.5, -7, 0.1), (2.6, 30)),
    KeywordCase("exclusiveMinimum", {"type": "number", "exclusiveMinimum": 0}, (0.1, 3), (0, -1)),
    KeywordCase("exclusiveMaximum", {"type": "integer", "exclusiveMaximum": 10}, (9, -3), (10, 11)),
    KeywordCase(
        "exclusiveMinimum near maximum",
        {"type": "number", "exclusiveMinimum": 3, "maximum": 3.25},
        (3.01, 3.25, 3.1),
        (3, 3.0, 3.3, 2.9),
    ),
    KeywordCase(
        "exclusiveMaximum near minimum",
        {"type": "number", "minimum": -3.5, "exclusiveMaximum": -3},
        (-3.5, -3.01, -3.2),
        (-3, -3.0, -3.6, 3.1),
    ),
    KeywordCase(
        "both excluded", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, (0.25, 0.01), (0, 0.0, 0.5)
    ),
    KeywordCase("minimum without a type", {"minimum": 3}, (3, "a", None, [1]), (2,)),
    KeywordCase("multipleOf, whole", {"type": "integer", "multipleOf": 3}, (0, 9, -6), (1, 10)),
    KeywordCase("multipleOf, a fraction", {"type": "number", "multipleOf": 0.25}, (0.5, 1), (0.3, 1.1)),
    KeywordCase("minLength", {"type": "string", "minLength": 2}, ("ab", "äö"), ("", "a", "ä")),
    KeywordCase("maxLength", {"type": "string", "maxLength": 2}, ("", "äö", '"\\'), ("abc",)),
    KeywordCase("pattern", {"type": "string", "pattern": "^[a-c]{2}$"}, ("ab",), ("a", "abc", "xy")),
    KeywordCase("pattern, found anywhere", {"type": "string", "pattern": "a[0-9]"}, ("xa1y",), ("a", "xay")),
    KeywordCase("pattern, looking ahead", {"type": "string", "pattern": "^(?!a).+$"}, ("b",), ("a",), "pattern"),
    KeywordCase("pattern, a bracket in a class", {"type": "string", "pattern": "^[a[]$"}, ("a", "["), ("b", "]")),
    KeywordCase("pattern and length", {"type": "string", "pattern": "^a+$", "maxLength": 3}, ("aaa",), ("aaaa", "b")),
    KeywordCase(
        "format, date", {"type": "string", "format": "date"}, ("2024-02-29",), ("2023-02-29", "2024-13-01", "x")
    ),
    KeywordCase(
        "format, date-time", {"type": "string", "format": "date-time"}, ("2024-01-02T03:04:05Z",), ("2024-01-02",)
    ),
    KeywordCase("format, time", {"type": "string", "format": "time"}, ("03:04:05Z",), ("25:00:00Z", "x")),
    KeywordCase("format, email", {"type": "string", "format": "email"}, ("a@b.org",), ("a", "a b@c")),
    KeywordCase(
        "format, uuid", {"type": "string", "format": "uuid"}, ("12345678-1234-1234-1234-123456789abc",), ("x",)
    ),
    KeywordCase("format, ipv4", {"type": "string", "format": "ipv4"}, ("127.0.0.1",), ("256.0.0.1", "1.2.3")),
    KeywordCase("format, ipv6", {"type": "string", "format": "ipv6"}, ("::1", "fe80::1:2"), ("1::2::3", "g::")),
    KeywordCase("format, uri", {"type": "string", "format": "uri"}, ("https://a.org/b?c#d",), ("no scheme",)),
    KeywordCase("format, hostname", {"type": "string", "format": "hostname"}, ("a.example.org",), ("-a", "a..b")),
    KeywordCase("format, regex", {"type": "string", "format": "regex"}, ("a+",), ("(",), "format"),
    KeywordCase("format, made up", {"type": "string", "format": "colour"}, ("red",), (1,), "format"),
    KeywordCase("anyOf", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, (1, "a"), (None, [])),
    KeywordCase("oneOf, of unlike types", {"oneOf": [{"type": "integer"}, {"type": "string"}]}, (1, "a"), (None,)),
    KeywordCase(
        "oneOf, told apart by a tag",
        {"$defs": {"cat": _CAT, "dog": _DOG}, "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}]},
        ({"kind": "cat", "lives": 9}, {"kind": "dog", "tail": True}),
        ({"kind": "cow"}, {"kind": "dog", "tail": 1}, {}),
    ),
    KeywordCase(
        "oneOf, overlapping",
        {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]},
        (1, 5.5),
        (7,),
        "oneOf",
    ),
    KeywordCase("allOf", {"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 5}]}, (3, 5), (2, 6, "a")),
    KeywordCase(
        "allOf, of objects",
        {
            "allOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"a": {"maximum": 3}}},
            ]
        },
        ({"a": 2},),
        ({"a": 4}, {"a": "x"}, {}),
    ),
    KeywordCase("not", {"not": {"type": "string"}}, (1,), ("a",), "not"),
    KeywordCase(
        "if, then, else",
        {"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "string"}},
        (3, "a"),
        (1, None),
        "if",
    ),
    KeywordCase("$ref and $defs", {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, (1,), ("a",)),
    KeywordCase(
        "$ref, an escaped pointer", {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, (1,), ("a",)
    ),
    KeywordCase("$ref, an anchor", {"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "integer"}}}, (1,), ("a",)),
    KeywordCase(
        "$ref with keywords beside it",
        {"$ref": "#/$defs/n", "maximum": 3, "$defs": {"n": {"type": "integer"}}},
        (1,),
        (5, "a"),
    ),
    KeywordCase(
        "recursion",
        {"$ref": "#/$defs/node", "$defs": {"node": _NODE}},
        ({}, {"next": {"next": {}}}),
        ({"next": 1}, {"next": {"next": 2}}),
    ),
    KeywordCase("recursion of the root", {"type": "array", "items": {"$ref": "#"}}, ([], [[], [[]]]), ([1], [[1]])),
    KeywordCase("$dynamicRef", {"items": {"$dynamicRef": "#"}}, ([[]],), (), "$dynamicRef"),
    KeywordCase(
        "dependentRequired",
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        ({"a": 1, "b": 2},),
        ({"a": 1},),
        "dependentRequired",
    ),
    KeywordCase(
        "dependentSchemas",
        {"type": "object", "dependentSchemas": {"a": {"required": ["b"]}}},
        ({"a": 1, "b": 2},),
        ({"a": 1},),
        "dependentSchemas",
    ),
    KeywordCase(
        "dependencies of draft 7",
        {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}},
        ({"a": 1, "b": 2},),
        ({"a": 1},),
        "dependencies",
    ),
    KeywordCase(
        "unevaluatedProperties",
        {"type": "object", "properties": {"a": True}, "unevaluatedProperties": False},
        ({"a": 1},),
        ({"b": 1},),
        "unevaluatedProperties",
    ),
    KeywordCase(
        "unevaluatedItems",
        {"type": "array", "prefixItems": [True], "unevaluatedItems": False},
        ([1],),
        ([1, 2],),
        "unevaluatedItems",
    ),
    KeywordCase("annotations", {"title": "t", "description": "d", "default": 1, "x-y": 2}, (1, "a", None), ()),
    KeywordCase("true", True, (1, "a", None, [], {}), ()),
)
