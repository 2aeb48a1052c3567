"""What cannot be asked for is refused with a typed error before anything is computed."""

from __future__ import annotations

import builtins
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from edgec.bundle.schemas import MOST_SCHEMA_BYTES
from edgec.errors import InputError, ToolError
from edgec.installation import install_command
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.generation.generate import GenerationRequest
from edgec.runtime_py.structured.schema.normalise import portable
from edgec.runtime_py.structured.wanted import wanted
from tests.runtime_py.structured.steppers import structures, written


def deep(levels: int) -> Any:
    node: Any = {"type": "integer"}
    for _ in range(levels):
        node = {"type": "array", "items": node}
    return node


def itself() -> Any:
    node: dict[str, Any] = {"type": "array"}
    node["items"] = node
    return node


ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}


@pytest.mark.parametrize(
    ("asked", "code", "where"),
    [
        ({"schema": {}, "regex": "a"}, "E610", ""),
        ({"json": True, "grammar": "start: /a/"}, "E610", ""),
        ({"schema": 5}, "E612", "schema"),
        ({"schema": {"type": "thing"}}, "E612", "#/type"),
        ({"schema": {"type": object}}, "E612", "schema"),
        ({"schema": {"minimum": float("nan")}}, "E612", "schema"),
        ({"schema": {"minLength": -1}}, "E612", "#/minLength"),
        ({"schema": {"properties": []}}, "E612", "#/properties"),
        ({"schema": {"properties": {"a": 3}}}, "E612", "#/properties/a"),
        ({"schema": {"required": "a"}}, "E612", "#/required"),
        ({"schema": {"exclusiveMinimum": True, "minimum": 3}}, "E612", "#/exclusiveMinimum"),
        ({"schema": {"items": [{}]}}, "E612", "#/items"),
        ({"schema": {"anyOf": []}}, "E612", "#/anyOf"),
        ({"schema": {"$ref": "#/$defs/none"}}, "E612", "#/$ref"),
        ({"schema": {"$ref": "other.json"}}, "E613", "#/$ref"),
        ({"schema": {"items": {"minLenght": 2}}}, "E613", "#/items/minLenght"),
        ({"schema": {"type": "string", "pattern": "("}}, "E613", "#/pattern"),
        ({"schema": {"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1}}, "E613", "schema"),
        ({"schema": deep(70)}, "E614", ""),
        ({"schema": itself()}, "E612", "schema"),
        ({"schema": {"maxItems": 10**7}}, "E614", "#/maxItems"),
        ({"schema": {"maximum": 2**60}}, "E614", "#/maximum"),
        ({"schema": {"const": 2**60}}, "E614", "#/const"),
        ({"schema": {"description": "x" * MOST_SCHEMA_BYTES}}, "E614", "schema"),
        ({"schema": False}, "E615", "schema"),
        ({"schema": {"enum": []}}, "E615", "#/enum"),
        ({"schema": {"type": "integer", "enum": ["a"]}}, "E615", "schema"),
        ({"schema": {"allOf": [{"type": "integer"}, {"type": "string"}]}}, "E615", "schema"),
        ({"schema": {"type": "integer", "minimum": 3, "maximum": 2}}, "E615", "schema"),
        ({"schema": {"type": "string", "pattern": "^a$", "minLength": 2}}, "E615", "schema"),
        ({"schema": {"$ref": "#"}}, "E615", "schema"),
        ({"schema": ENDLESS}, "E615", "schema"),
        ({"regex": "(a"}, "E616", "regex"),
        ({"regex": "(?=a)"}, "E616", "regex"),
        ({"regex": 5}, "E616", "regex"),
        ({"grammar": "start: nothing"}, "E616", "grammar"),
        ({"grammar": "root ::= ("}, "E616", "grammar"),
        ({"grammar": "start: <|im_end|>"}, "E616", "grammar"),
        ({"grammar": 'start: %json {"not": {}}'}, "E616", "grammar"),
    ],
)
def test_bad_input_has_a_code_and_a_place(asked: dict[str, Any], code: str, where: str) -> None:
    with pytest.raises(InputError) as refused:
        wanted(**asked)
    error = refused.value
    assert error.code == code and error.fix and (error.where == where or not where)


@pytest.mark.parametrize("content", [None, b"{", b"\xff", b"[" * 5000, b" " * (MOST_SCHEMA_BYTES + 1)])
def test_files_that_hold_no_schema(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "s.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match="E611"):
        wanted(schema=file)
    with pytest.raises(InputError, match="E611"):
        wanted(grammar=tmp_path / "none.lark")


def test_a_schema_file_and_a_grammar_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"enum": ["a"]}')
    (tmp_path / "g.lark").write_text('start: "yes" | "no"  // an answer\n')
    assert written(structures(), 9, schema=tmp_path / "s.json").value == "a"
    assert written(structures(), 9, schema=str(tmp_path / "s.json")).value == "a"
    assert written(structures(), 9, grammar=tmp_path / "g.lark").value in ("yes", "no")


def test_without_the_library_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "llguidance":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert wanted() is None
    with pytest.raises(ToolError) as refused:
        wanted(json=True)
    assert refused.value.code == "E619" and refused.value.fix == install_command("schema")


def test_stop_strings_and_a_structure_exclude_each_other() -> None:
    made = structures()
    structure = made.compiled(wanted(json=True))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="E610"):
        GenerationRequest(stop=("a",), structure=structure)


def test_what_is_compiled_is_kept() -> None:
    made = structures()
    first, again, other = (made.compiled(wanted(regex=rx)) for rx in ("a+", "a+", "b+"))  # type: ignore[arg-type]
    assert first is again is not other


class Role(StrEnum):
    USER, ADMIN = "user", "admin"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = Field(max_length=12)


class Person(BaseModel):
    role: Role
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    scores: list[float] = Field(max_length=3)
    friend: Person | None = None


class Picky(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def no_number(cls, value: int) -> int:
        raise ValueError("never right")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_a_class_gives_an_instance(seed: int) -> None:
    out = written(structures(), 150, Sampling(1.0, seed=seed), seed=seed, schema=Person)
    assert isinstance(out.value, Person) and out.value == Person.model_validate_json(out.text)


def test_a_class_that_refuses_its_own_schema() -> None:
    with pytest.raises(InputError) as refused:
        written(structures(), 60, schema=Picky)
    assert refused.value.code == "E618" and "never right" in refused.value.why


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["example", "fallback"])
def test_a_regular_expression_and_grammars_hold(name: str, seed: int) -> None:
    import re

    regex = r"[A-Z][a-zä]{1,9}(, [A-Z][a-zä]{1,9}){2}"
    out = written(structures(name), 60, Sampling(1.0, seed=seed), seed=seed, regex=regex)
    assert re.fullmatch(regex, out.text) and out.value == out.text
    sums = 'start: sum\nsum: NUMBER | sum "+" NUMBER\nNUMBER: /[0-9]{1,3}/\n'
    gbnf = 'root ::= num ("+" num)*\nnum ::= [0-9] [0-9]? [0-9]?\n'
    for grammar in (sums, gbnf):
        out = written(structures(name), 30, Sampling(1.0, seed=seed), seed=seed, grammar=grammar)
        assert re.fullmatch(r"[0-9]{1,3}(\+[0-9]{1,3})*", out.text), out.text


@pytest.mark.parametrize(
    ("pattern", "same"),
    [
        ("[a[]", r"[a\[]"),
        (r"[\[x]", r"[\[x]"),
        ("[a&&b]", r"[a\&&b]"),
        ("a&&[^[b]", r"a&&[^\[b]"),
        ("[a-z]-", "[a-z]-"),
    ],
)
def test_classes_know_no_operators(pattern: str, same: str) -> None:
    assert portable(pattern) == same
