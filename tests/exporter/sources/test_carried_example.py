"""The example that edgec brings, by its name from any folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgec.exporter.dimensions.parameters import read_config
from edgec.exporter.resolve.planned import Question, answer
from edgec.exporter.resolve.planned_source import local_model
from edgec.exporter.sources.files.model_forms import EXAMPLE, carried_example
from edgec.exporter.sources.resolve import resolve


def test_the_name_stands_for_the_example_unless_there_is_such_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (EXAMPLE, f"examples/{EXAMPLE}"):
        folder = carried_example(name)
        assert folder is not None and (folder / "model.safetensors").is_file()
        assert local_model(name) == name
        assert read_config(name) == read_config(folder), "as edgec plan reads it"
    assert carried_example("stories") is None
    source = resolve(EXAMPLE)
    assert (source.name, source.kind, source.trained) == (EXAMPLE, "decoder", True)
    (tmp_path / EXAMPLE).mkdir()
    assert carried_example(EXAMPLE) is None


def test_it_is_planned_by_its_name_without_asking_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edgec.exporter.dimensions.parameters.fetch_config", pytest.fail)
    planned = answer(Question(f"examples/{EXAMPLE}", "galaxy-s24-ultra-cpu", recipe="4bit"))
    assert planned.refusal is None and 3e6 < planned.plan.footprint.size_bytes.mid < 5e6
