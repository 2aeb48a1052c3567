"""Options that no model and no target could have are refused before any work."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions, parse_schemas
from edgec.exporter.progress import Event
from tests.conftest import with_engine


@pytest.mark.parametrize(
    "given",
    [
        {"budgets": {"speed": 1.0}},
        {"budgets": {"kl_mean": math.nan}},
        {"max_fallback": 1.5},
        {"max_fallback": math.nan},
        {"kernels": "fast"},
        {"layout": "llama.cpp"},
    ],
)
def test_impossible_values_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        ExportOptions("m", **given).check()
    assert caught.value.code == "E115"


def test_the_function_takes_the_options_fields() -> None:
    assert inspect.signature(edgec.export) == inspect.signature(ExportOptions).replace(return_annotation=Path)
    assert edgec.export.__name__ == "export" and "system_prompt" in (edgec.export.__doc__ or "")
    with pytest.raises(TypeError, match="recipee"):
        edgec.export("m", recipee="4bit")  # type: ignore[call-arg]


@pytest.mark.long
def test_an_exception_in_the_callback_ends_the_export_and_leaves_nothing(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(with_engine(tmp_path / "cache")))

    class Stop(Exception):
        pass

    def stop(event: Event) -> None:
        if event.stage == "capture":
            raise Stop

    with pytest.raises(Stop):
        edgec.export(tiny_folder, recipe="float", out=tmp_path / "a.edgec", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize("texts", [["person"], ["=a.json"], ["a=x", "a=y"]])
def test_a_schema_without_a_name_or_a_file_is_refused(texts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        parse_schemas(texts)
    assert error.value.code == "E712"
