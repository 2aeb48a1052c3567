"""Compiled schemas allow the bytes that the library of `edgec run` allows, and refuse what they cannot enforce."""

from __future__ import annotations

import random
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.exporter.schemas.compiled import compile_schema
from edgec.runtime_py.structured.wanted import normalised_schema
from tests.exporter.schemas.walker import Walker, difference
from tests.runtime_py.structured.keyword_cases import CASES

WALKS, STEPS = 6, 50
LEFT_OUT = ("multipleOf", "format, email", "format, ipv6", "format, uri", "format, hostname")
COMPILED = [case for case in CASES if not case.refused and not case.name.startswith(LEFT_OUT)]
BOUNDS: tuple[dict[str, Any], ...] = (
    {"type": "integer", "minimum": -3, "maximum": 120},
    {"type": "integer", "minimum": 0},
    {"type": "integer", "minimum": -1},
    {"type": "integer", "exclusiveMaximum": 10},
    {"type": "integer", "minimum": 17, "maximum": 17},
    {"type": "number", "exclusiveMinimum": 10, "exclusiveMaximum": 11.703},
    {"type": "number", "minimum": 25.3, "maximum": 28.065},
    {"type": "number", "minimum": -1.11, "maximum": 200},
    {"type": "number", "minimum": -3.25, "exclusiveMaximum": 10},
    {"type": "number", "minimum": 0, "maximum": 0},
    {"type": "number", "minimum": -5, "maximum": 0},
    {"type": "number", "maximum": 0.5},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "number", "exclusiveMinimum": 3, "maximum": 3.25},
    {"type": "number", "minimum": -3.5, "exclusiveMaximum": -3},
    {"type": "number", "minimum": 2.5, "maximum": 2.5},
)


@pytest.mark.long
@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.name)
def test_the_same_bytes_may_come_as_in_the_library(case: Any) -> None:
    machine = compile_schema(normalised_schema(case.schema))
    assert [difference(case.schema, random.Random(seed), STEPS, machine) for seed in range(WALKS)] == [""] * WALKS


@pytest.mark.parametrize("schema", BOUNDS, ids=str)
def test_numbers_within_bounds_are_those_of_the_library(schema: dict[str, Any]) -> None:
    machine = compile_schema(normalised_schema(schema))
    assert [difference(schema, random.Random(seed), 12, machine) for seed in range(12)] == [""] * 12


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "integer", "multipleOf": 3}, "multipleOf"),
        ({"type": "string", "format": "email"}, "format"),
        ({"type": "string", "pattern": "^(a|b$)"}, "pattern"),
        ({"type": "string", "pattern": "(?i)ab"}, "pattern"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "$ref"),
        ({"properties": {"a": {"type": "string", "format": "uri"}}}, "format"),
        ({"allOf": [{"properties": {"a": True}, "additionalProperties": False}, {"properties": {"b": True}}]}, "allOf"),
    ],
    ids=str,
)
def test_what_the_automaton_does_not_enforce_is_refused_by_name(schema: dict[str, Any], keyword: str) -> None:
    with pytest.raises(InputError, match=keyword.replace("$", r"\$")) as error:
        compile_schema(normalised_schema(schema))
    assert error.value.code == "E710"


def test_a_schema_of_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.exporter.schemas.compiled.MOST_STATES", 500)
    with pytest.raises(InputError) as error:
        compile_schema(normalised_schema({"type": "string", "pattern": "a.{9}b"}))
    assert error.value.code == "E711"


def test_whole_texts_are_known() -> None:
    machine = compile_schema(normalised_schema({"type": "array", "items": {"enum": ["a", 1]}, "minItems": 1}))
    for text, whole in ((b'["a", 1]', True), (b"[1", False), (b"[]", False)):
        walker = Walker(machine)
        for byte in text:
            walker.take(byte)
        assert walker.whole == whole
