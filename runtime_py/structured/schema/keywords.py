"""The keywords of JSON Schema: which are enforced, which say nothing about a text, which are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

ENFORCED: Final = (
    *("type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"),
    *("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    *("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "format"),
)
ANNOTATIONS: Final = (
    *("$schema", "$id", "id", "$anchor", "$defs", "definitions", "$comment", "$vocabulary", "$dynamicAnchor"),
    *("title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "example", "discriminator"),
    *("contentMediaType", "contentEncoding", "contentSchema", "externalDocs", "xml"),
)


def _true(value: Any) -> bool:
    return value is True or value == {}


def _nothing(value: Any) -> bool:
    return value in ({}, [])


# Each with what makes it say nothing: then it is left out.
REFUSED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "not": lambda value: value is False,
    "if": lambda value: False,
    "then": lambda value: False,
    "else": lambda value: False,
    "uniqueItems": lambda value: value is False,
    "contains": lambda value: False,
    "minContains": lambda value: False,
    "maxContains": lambda value: False,
    "propertyNames": _true,
    "dependentRequired": _nothing,
    "dependentSchemas": _nothing,
    "dependencies": _nothing,
    "unevaluatedProperties": _true,
    "unevaluatedItems": _true,
    "$dynamicRef": lambda value: False,
    "$recursiveRef": lambda value: False,
    "$recursiveAnchor": lambda value: value is False,
    # Of draft 3 and of OpenAPI 3.0.
    "extends": lambda value: False,
    "disallow": lambda value: False,
    "divisibleBy": lambda value: False,
    "nullable": lambda value: value is False,
}

# What OpenAPI says of numbers, as bounds; whole numbers beyond 2**53 are not exact in a double.
NUMBER_FORMATS: Final[Mapping[str, tuple[int, int] | None]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**53), 2**53),
    "float": None,
    "double": None,
}
_LEAP: Final = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR: Final = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DAY: Final = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE: Final = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# Formats that are enforced by a pattern of edgec's own: the engine's let 29 February of any year pass.
PATTERNS: Final[Mapping[str, str]] = {
    "date": f"^{_DAY}$",
    "time": f"^{_CLOCK}{_ZONE}$",
    "date-time": f"^{_DAY}T{_CLOCK}{_ZONE}$",
    "json-pointer": r"^(?:/(?:[^~/]|~[01])*)*$",
}
# Formats of the engine's own; those to the left are enforced by a narrower one.
ENGINE_FORMATS: Final[Mapping[str, str]] = {
    **{name: name for name in ("duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")},
    **{"idn-email": "email", "idn-hostname": "hostname"},
    **dict.fromkeys(("iri", "uri-reference", "iri-reference"), "uri"),
}
HOSTNAME_CHARACTERS: Final = 253
