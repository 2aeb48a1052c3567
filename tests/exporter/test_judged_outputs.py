"""Outputs that are hard to judge, through ``edgec export``: refused where information is lost, else kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import BudgetError, EdgecError
from edgec.runtime_py.verify.verify import verify

FACTORIES = "tests.exporter.output_factories"


def exported(name: str, target: str, folder: Path) -> Path:
    if target == "iphone":
        pytest.importorskip("coremltools")
    form = "mlpackage" if target == "iphone" else None
    return edgec.export(f"{FACTORIES}:{name}", target=target, format=form, recipe="float", out=folder / "x.edgec")


@pytest.mark.slow
def test_a_channel_that_float16_loses_is_refused_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(EdgecError) as caught:
        exported("around", "iphone", tmp_path)
    assert caught.value.code == "E202" and "index 3 of dimension 2" in caught.value.where and "CPU" in caught.value.fix
    assert not (tmp_path / "x.edgec").exists()
    assert exported("around", "host", tmp_path).is_dir()


@pytest.mark.long
def test_a_channel_whose_squares_float16_loses_has_them_in_float32(tmp_path: Path) -> None:
    bundle = exported("squared", "iphone", tmp_path)
    manifest = open_bundle(bundle).manifest
    (tried,) = manifest.tried_recipes
    assert "which float16 does not hold, in :sum" in tried.missed
    assert manifest.recipe["keep_float"] == [":pow", ":sum", ":sqrt"] and "in float32" in manifest.bits_line
    assert "channel_relative" in manifest.parity[-1].budget and manifest.parity[-1].passed and verify(bundle).passed


@pytest.mark.sweep(2)
@pytest.mark.long
@pytest.mark.parametrize("target", ["iphone", "host"])
@pytest.mark.parametrize("name", ["normalised", "constant", "hidden", "masked", "classes"])
def test_what_is_kept_passes_and_verifies(name: str, target: str, tmp_path: Path) -> None:
    bundle = exported(name, target, tmp_path)
    assert open_bundle(bundle).manifest.parity[-1].passed and verify(bundle).passed


@pytest.mark.long
def test_outputs_that_made_up_inputs_leave_undefined_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="no finite number") as caught:
        exported("logarithm", "host", tmp_path)
    assert caught.value.code == "E204"
