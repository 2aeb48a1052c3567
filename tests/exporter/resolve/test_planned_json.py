"""The JSON of a plan is what its schema says, for targets of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from edgec.cli.app import app
from edgec.devices.targets import all_targets
from edgec.exporter.resolve.planned import Question, answer
from edgec.exporter.resolve.planned_json import SCHEMA, SCHEMA_VERSION, to_json
from tests.exporter.resolve.cached_models import cache_models

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"


def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return schema


def test_the_schema_is_one_and_every_field_is_described() -> None:
    schema = _schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema_version"] == {**schema["properties"]["schema_version"], "const": SCHEMA_VERSION}
    objects = [schema, *(each for each in schema["$defs"].values() if "properties" in each)]
    assert all("description" in field for each in objects for field in each["properties"].values())


@pytest.mark.long
@pytest.mark.parametrize("model", ["smollm2-135m", "qwen3.5-0.8b", "tiny-vit"])
def test_plans_of_all_kinds_of_targets_are_as_the_schema_says(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_models(monkeypatch)
    validator = jsonschema.Draft202012Validator(_schema())
    kinds = {(each.os, each.unit, each.format, each.memory_bytes is None): each.name for each in all_targets()}
    assert len(kinds) > 15
    for target in kinds.values():
        answered = answer(Question(str(ARCHITECTURES / f"{model}.json"), target))
        errors = [f"{target} {error.json_path}: {error.message}" for error in validator.iter_errors(to_json(answered))]
        assert errors == []


def test_another_shape_is_refused_by_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_models(monkeypatch)
    record = to_json(answer(Question(str(ARCHITECTURES / "tiny-qwen3.json"), "host")))
    validator = jsonschema.Draft202012Validator(_schema())
    assert validator.is_valid(record)
    for wrong in ({**record, "verdict": "perhaps"}, {**record, "more": 1}, {**record, "schema_version": 1}):
        assert not validator.is_valid(wrong)
    del record["commands"]
    assert not validator.is_valid(record)


def test_the_schema_is_printed() -> None:
    result = CliRunner().invoke(app, ["plan", "--json-schema"])
    assert result.exit_code == 0 and json.loads(result.stdout) == _schema()
