"""Each keyword is enforced, or refused by its name; jsonschema is the judge of the instances."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from edgec.errors import InputError
from edgec.runtime_py.decoding.sampling import Sampling
from edgec.runtime_py.structured.schema.keywords import ANNOTATIONS, ENFORCED, REFUSED
from edgec.runtime_py.structured.wanted import wanted
from tests.runtime_py.structured.keyword_cases import CASES, KeywordCase
from tests.runtime_py.structured.steppers import structures, written

ENFORCED_CASES = [case for case in CASES if not case.refused]
REFUSED_CASES = [case for case in CASES if case.refused]
# Formats whose own checkers jsonschema lacks here; the engine is narrower than this judge.
UNJUDGED = ("date-time", "time", "email", "uri", "hostname", "regex")


def name_of(case: KeywordCase) -> str:
    return case.name


def judge(schema: Any) -> Any:
    made = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return made(schema, format_checker=made.FORMAT_CHECKER)


def accepts(schema: Any, value: Any) -> bool:
    made = structures()
    one = wanted(schema=schema)
    assert one is not None
    tokens = made.vocabulary.spelled(json.dumps(value, ensure_ascii=False).encode())
    return made.compiled(one).compiled.begin(1, closes=False).fitting(tokens) == (len(tokens), True)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_judge_agrees_with_the_cases(case: KeywordCase) -> None:
    if case.refused == "$dynamicRef":
        return  # nothing but itself: the judge recurses forever
    assert all(judge(case.schema).is_valid(value) for value in case.valid)
    if not any(case.name.endswith(f", {name}") for name in UNJUDGED):
        assert not any(judge(case.schema).is_valid(value) for value in case.invalid)


@pytest.mark.parametrize("case", ENFORCED_CASES, ids=name_of)
def test_an_enforced_keyword_lets_valid_values_through_and_no_other(case: KeywordCase) -> None:
    # Numbers of fewer decimals than the divisor's are left out: 0.50 is written for 0.5.
    valid = [value for value in case.valid if case.name != "multipleOf, a fraction" or value != 0.5]
    assert all(accepts(case.schema, value) for value in valid)
    assert not any(accepts(case.schema, value) for value in case.invalid)


@pytest.mark.parametrize("case", REFUSED_CASES, ids=name_of)
def test_a_keyword_that_is_not_enforced_is_refused_by_name(case: KeywordCase) -> None:
    with pytest.raises(InputError) as refused:
        wanted(schema=case.schema)
    error = refused.value
    assert error.code == "E613" and repr(case.refused) in error.what and error.where.endswith(f"/{case.refused}")


@pytest.mark.sweep(40)
@pytest.mark.long
@pytest.mark.parametrize("vocabulary", ["example", "fallback"])
@pytest.mark.parametrize("case", ENFORCED_CASES, ids=name_of)
def test_random_models_write_valid_values(case: KeywordCase, vocabulary: str) -> None:
    for temperature, most in ((0.0, 120), (1.0, 120), (1.0, 40)):
        out = written(structures(vocabulary), most, Sampling(temperature, seed=3), schema=case.schema)
        assert out.finish_reason in ("complete", "eos"), out.text
        assert judge(case.schema).is_valid(json.loads(out.text)) and out.value == json.loads(out.text)


def test_every_keyword_of_the_lists_has_a_case() -> None:
    text = json.dumps([case.schema for case in CASES])
    assert not [word for word in ENFORCED if f'"{word}"' not in text]
    drafts_only = {"$recursiveRef", "$recursiveAnchor", "extends", "disallow", "divisibleBy", "nullable"}
    assert not [word for word in set(REFUSED) - drafts_only if f'"{word}"' not in text]
    assert not set(ENFORCED) & set(REFUSED) and not set(ANNOTATIONS) & {*ENFORCED, *REFUSED}


@pytest.mark.parametrize("keyword", sorted(REFUSED))
def test_keywords_without_effect_are_left_out_and_others_are_named(keyword: str) -> None:
    with pytest.raises(InputError, match=r"E613") as refused:
        wanted(schema={"type": "object", "properties": {"a": {keyword: {"pattern": "a"}}}})
    assert refused.value.where == f"#/properties/a/{keyword}"
    values: tuple[Any, ...] = (False, True, {}, [])
    for harmless in values:
        if REFUSED[keyword](harmless):
            assert wanted(schema={"type": "array", keyword: harmless}) is not None


def test_a_free_name_cannot_spell_a_declared_one() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}, "type": "object"}
    place = structures().compiled(wanted(schema=schema)).begin(9)  # type: ignore[arg-type]
    tokens = structures().vocabulary.spelled(rb'{"\u0061":1}')
    assert place.count_fitting(tokens) < len(tokens)
