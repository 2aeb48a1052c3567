from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.exporter.calibration import made_text
from edgec.exporter.calibration.stage import with_text
from edgec.exporter.options import ExportOptions
from edgec.exporter.progress import Event, Progress
from edgec.exporter.recipes.calibrated import reads_text
from edgec.exporter.request import ExportRequest
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.stage_cache import StageCache


def _request(folder: Path, recipe: str = "4bit-gptq", **options: Any) -> ExportRequest:
    return resolve_options(ExportOptions(folder, recipe=recipe, **{"context": 64, **options})).request


@pytest.mark.long
def test_text_is_made_once_for_a_model(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    with StageCache(tmp_path) as cache:
        made = with_text(_request(tiny_folder), cache, Progress(events.append))
        assert made.calibration and made.calibration_text and len(made.calibration) == made.calibration_text.tokens
        assert events[-1].stage == "text" and not events[-1].cached and 0 < events[-1].fraction <= 1
        monkeypatch.setattr(made_text, "make_text", _never)
        tables = _request(tiny_folder, "lut4", target="iphone")
        again = with_text(tables, cache, Progress(events.append))
        assert again.calibration == made.calibration and again.calibration_text == made.calibration_text
        assert events[-1].cached
        with pytest.raises(AssertionError, match="made again"):  # another context: rotations may differ
            with_text(_request(tiny_folder, context=32), cache, Progress())


def test_a_file_wins(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_text, "make_text", _never)
    (tmp_path / "own words.txt").write_text("Once upon a time there was a girl called Lily. " * 10)
    request = _request(tiny_folder, calibrate=tmp_path / "own words.txt")
    with StageCache(tmp_path / "cache") as cache:
        assert with_text(request, cache, Progress()) is request
    assert str(request.calibration_text) == f"{len(request.calibration):,} tokens of own words.txt"


def test_recipes_that_use_no_text_make_none(tiny_folder: Path, tmp_path: Path) -> None:
    with StageCache(tmp_path) as cache:
        for name in ("float", "8bit"):
            request = _request(tiny_folder, name)
            assert with_text(request, cache, Progress()) is request
        shared = replace(request, recipe=replace(request.recipe, shared_kv="reuse", boundary="auto"))
        assert with_text(shared, cache, Progress()).calibration
        assert with_text(request, cache, Progress(), searched=True).calibration


@pytest.mark.long
def test_models_that_are_not_decoders_are_left_as_they_are(tmp_path: Path) -> None:
    options = ExportOptions("tests.exporter.module_factories:bert", recipe="lut4", target="iphone", out=tmp_path / "a")
    request = resolve_options(options).request
    assert reads_text(request.recipe)
    with StageCache(tmp_path) as cache:
        assert with_text(request, cache, Progress()) is request


def _never(*_: Any) -> Any:
    raise AssertionError("made again")
