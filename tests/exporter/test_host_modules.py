"""Encoders and other modules on this machine use edgec's kernels, and on phones those that every app has."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.coverage_parts.tiny_modules import module_model
from edgec import export
from edgec.bundle.folder import read_manifest
from edgec.bundle.manifest import Manifest
from edgec.errors import InputError

FACTORIES = {name: f"tests.exporter.module_factories:{name}" for name in ("vit", "bert")}

_SLOW = partial(pytest.param, marks=pytest.mark.slow)


def exported(kind: str, folder: Path, **options: Any) -> Manifest:
    """The ladder, which every export passes, compares the executed artifact with the module; bert's text is padded."""
    return read_manifest(export(FACTORIES[kind], out=folder / "x.edgec", **options))


@pytest.mark.long
@pytest.mark.parametrize(("kind", "recipe"), [("vit", "8bit"), ("bert", "8bit")])
def test_a_module_on_this_machine_calls_edgecs_kernels(kind: str, recipe: str, tmp_path: Path) -> None:
    made = exported(kind, tmp_path, recipe=recipe)
    assert made.delegation is not None and "edgec_linear" in made.delegation.backend
    assert "edgec::encoder_attention.out" in made.runtime.operators


@pytest.mark.sweep(1)
@pytest.mark.long
@pytest.mark.parametrize("kind", FACTORIES)
@pytest.mark.parametrize("recipe", [_SLOW("float"), "4bit", _SLOW("3bit"), "balanced2"])
def test_every_recipe_runs_a_module(kind: str, recipe: str, tmp_path: Path) -> None:
    # Two layers of 32 channels keep little in 2 bits: the worst of sixteen inputs is off by 2.2 of the largest value.
    made = export(FACTORIES[kind], out=tmp_path / "x.edgec", recipe=recipe, budgets={"max_relative": 4.0})
    assert "edgec::encoder_attention.out" in read_manifest(made).runtime.operators


@pytest.mark.slow
def test_tables_of_places_are_counted_as_they_are_stored(tmp_path: Path) -> None:
    """SAM's are stored larger than their parameters, from which the backend computes them."""
    module_model("sam_vision_model").save_pretrained(tmp_path / "sam")
    made = read_manifest(export(tmp_path / "sam", recipe="float", out=tmp_path / "x.edgec"))
    assert made.ledger is not None
    tables = {row.name: row.bytes for row in made.ledger.rows if ".rel_pos_" in row.name and row.bytes}
    assert len(tables) == 4 and not any(row.dtype == "float32" and "float32 [" in row.name for row in made.ledger.rows)


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [pytest.param({"kernels": "standard"}, marks=pytest.mark.slow), {"target": "android-cpu"}]
)
def test_elsewhere_and_where_asked_a_module_calls_standard_kernels(options: dict[str, str], tmp_path: Path) -> None:
    made = exported("vit", tmp_path, recipe="8bit", **options)
    assert made.delegation is not None and made.delegation.backend == "xnnpack"
    assert not any(name.startswith("edgec::") for name in made.runtime.operators)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"recipe": "8bit", "target": "android-cpu"}, {"recipe": "4bit"}])
def test_computed_weights_and_outputs_in_a_dict_are_exported(options: dict[str, Any], tmp_path: Path) -> None:
    made = export("tests.exporter.module_factories:computed", out=tmp_path / "x.edgec", **options)
    manifest = read_manifest(made)
    assert [tensor.name for tensor in manifest.methods[0].outputs] == ["features"]
    assert "channels is left out: it is 40" in manifest.parity[0].note


@pytest.mark.long
@pytest.mark.parametrize(
    ("factory", "options", "code", "words"),
    [
        ("double", {"target": "host"}, "E793", "float64"),
        ("twice", {"target": "iphone", "format": "mlpackage"}, "E404", "first and second"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_by_name(
    factory: str, options: dict[str, Any], code: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        export(f"tests.exporter.module_factories:{factory}", out=tmp_path / "x.edgec", recipe="float", **options)
    assert words in caught.value.why
    assert caught.value.code == code and not (tmp_path / "x.edgec").exists()


@pytest.mark.long
def test_a_script_is_exported_and_a_module_with_state_refused(tmp_path: Path) -> None:
    made = export("tests.exporter.module_factories:traced", out=tmp_path / "x.edgec", recipe="float")
    assert read_manifest(made).parity[-1].passed
    with pytest.raises(InputError, match="keeps state between calls") as caught:
        export("tests.exporter.module_factories:counter", out=tmp_path / "y.edgec", recipe="float")
    assert caught.value.code == "E790" and "writes calls" in caught.value.why
