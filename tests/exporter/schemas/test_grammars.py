"""Grammars compiled for bundles allow the bytes that the library of `edgec run --grammar` allows."""

from __future__ import annotations

import random

import pytest
from typer.testing import CliRunner

from edgec.cli.app import app
from edgec.errors import InputError
from edgec.exporter.options import parse_schemas
from edgec.exporter.schemas.grammars import compile_grammar
from edgec.exporter.schemas.lark_common import COMMON
from edgec.exporter.schemas.pushdown import Pushdown
from edgec.runtime_py.structured.wanted import wanted
from tests.exporter.schemas.grammar_cases import ALIKE, GREEDY, REFUSED
from tests.exporter.schemas.random_grammars import random_grammar
from tests.exporter.schemas.walker import Walker, first_difference, matcher_of

WALKS, STEPS = 10, 70


def difference(grammar: str, machine: Pushdown, seed: int, steps: int = STEPS) -> str:
    asked = wanted(grammar=grammar)
    assert asked is not None
    return first_difference(Walker(machine), matcher_of(asked), random.Random(seed), steps)


@pytest.mark.parametrize("name", ALIKE)
def test_the_same_bytes_may_come_as_in_the_library(name: str) -> None:
    machine = compile_grammar(ALIKE[name])
    assert [difference(ALIKE[name], machine, seed) for seed in range(WALKS)] == [""] * WALKS


@pytest.mark.parametrize("name", COMMON)
def test_imported_terminals_are_those_of_the_library(name: str) -> None:
    grammar = f"start: {name}\n%import common.{name}"
    machine = compile_grammar(grammar)
    assert [difference(grammar, machine, seed, 20) for seed in range(3)] == [""] * 3


@pytest.mark.long
@pytest.mark.parametrize(("grammar", "code", "why"), REFUSED)
def test_what_cannot_be_compiled_is_refused_by_name(grammar: str, code: str, why: str) -> None:
    with pytest.raises(InputError) as error:
        compile_grammar(grammar, "sum.lark")
    assert error.value.code == code and why in error.value.why and error.value.fix
    assert error.value.where in ("sum.lark", "grammar")


def test_a_longest_match_that_leaves_no_end_is_refused_since_no_text_of_the_library_ends_either() -> None:
    with pytest.raises(InputError) as error:
        compile_grammar(GREEDY)
    assert error.value.code == "E771" and "takes what must follow it" in error.value.why
    asked = wanted(grammar=GREEDY)
    assert asked is not None
    matcher = matcher_of(asked)
    assert matcher.consume(list(b"a=b\n\n")) == len(b"a=b\n\n") and not matcher.accepting


@pytest.mark.parametrize("seed", range(60))
def test_random_grammars_are_refused_or_allow_the_same_bytes(seed: int) -> None:
    grammar = random_grammar(random.Random(seed))
    try:
        machine = compile_grammar(grammar)
    except InputError as error:
        assert error.code in ("E615", "E771"), grammar
        return
    assert [difference(grammar, machine, walk, 25) for walk in range(4)] == [""] * 4, grammar


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize("body", ['"{}" "y"', '("{}") "y"', "/({})y/"])
def test_a_part_of_thousands_of_bytes_may_stand_before_another(body: str) -> None:
    # More bytes than Python's calls may be deep.
    machine = compile_grammar("start: A\nA: " + body.format("x" * 1500))
    assert sum(bool(state.edges) for state in machine.states) == 1501


def test_names_are_those_of_schemas() -> None:
    assert {name: str(path) for name, path in parse_schemas(["sum=sum.lark"]).items()} == {"sum": "sum.lark"}
    error = CliRunner().invoke(app, ["export", "model", "--grammar", "sum"]).exception
    assert isinstance(error, InputError) and error.code == "E712" and "--grammar" in error.where
