"""The benchmark of structured output on files made here: what it counts, and that it can find a mistake."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from benchmarks.structured_parts.instances import measure_instances
from benchmarks.structured_parts.judge import verdict
from benchmarks.structured_parts.texts import measure_texts
from benchmarks.structured_parts.vocabularies import made_up, published

AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
UNIQUE = {"type": "array", "uniqueItems": True}


def case(schema: object, *tests: tuple[bool, object]) -> str:
    return json.dumps({"schema": schema, "tests": [{"valid": valid, "data": data} for valid, data in tests]})


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "age.json").write_text(case(AGE, (True, {"age": 7}), (False, {"age": "7"}), (False, {})))
    (folder / "unique.json").write_text(case(UNIQUE, (True, [1])))
    return folder


def test_a_published_vocabulary_has_a_token_for_each_rank_and_an_end(tmp_path: Path) -> None:
    file = tmp_path / "ranks.tiktoken"
    file.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(text), rank) for rank, text in enumerate([b"a", b" b"])))
    found = published(file)
    assert found.tokens[:2] == (b"a", b" b") and found.eos == found.special == frozenset({2})


def test_made_up_tokens_are_all_different() -> None:
    tokens = made_up(5_000).tokens
    assert len(set(tokens)) == len(tokens) == 5_000


@pytest.mark.long
def test_instances_are_counted_for_both_engines(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure_instances(made_up(600), cases, 10)
    out = capsys.readouterr().out
    right = "'valid instances': 1, 'valid, taken': 1, 'invalid instances': 2, 'invalid, rejected': 2"
    assert out.count(right) == 2 and "E613 The schema's keyword 'uniqueItems' cannot be enforced." in out
    assert "jsonschema says" not in out


def test_an_instance_with_the_wrong_mark_is_reported(cases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cases / "age.json").write_text(case(AGE, (True, {"age": "7"}), (False, {"age": 7})))
    measure_instances(made_up(600), cases, 10)
    out = capsys.readouterr().out
    assert out.count("valid age.json: jsonschema says invalid") == 2
    assert out.count("invalid age.json: jsonschema says valid") == 2


@pytest.mark.slow
@pytest.mark.long
def test_texts_of_random_weights_end_and_are_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "age.json").write_text(json.dumps(AGE))
    (tmp_path / "unique.json").write_text(json.dumps(UNIQUE))
    measure_texts(made_up(600), tmp_path, 10)
    assert "{'schemas': 2, 'accepted': 1, 'ended': 1, 'valid': 1}" in capsys.readouterr().out


def test_a_value_is_judged_by_jsonschema() -> None:
    assert verdict(AGE, {"age": 1}) == "valid" and verdict(AGE, {"age": None}) == "invalid"
    assert verdict({"type": "string", "pattern": "(?<"}, "x").startswith("not judged")
