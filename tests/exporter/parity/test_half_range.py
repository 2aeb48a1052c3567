"""Values beyond float16: refused with the layer's name, shown where they fit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import open_bundle
from edgec.errors import InputError
from edgec.exporter.parity.half_range import LIMIT, LargestValue, largest_value, refuse_overflow

DOWN, UP = "model.layers.1.mlp.down_proj", "model.layers.1.mlp.up_proj"
# What is huge: a sum that the residual stream holds; a product inside an MLP, whose result is as before.
PLACES: Mapping[str, Mapping[str, int]] = {DOWN: {DOWN: 1}, UP: {UP: 1, DOWN: -1}}
FACTOR = 1e8


def test_the_limit_itself_passes_and_more_does_not() -> None:
    refuse_overflow(LargestValue(LIMIT, "a"))
    with pytest.raises(InputError) as caught:
        refuse_overflow(LargestValue(LIMIT * 1.001, DOWN))
    assert caught.value.code == "E830" and caught.value.where == DOWN


def test_nothing_measured_is_nothing_said() -> None:
    assert str(largest_value({}, {})) == ""


def _scaled(folder: Path, target: Path, powers: Mapping[str, int], factor: float) -> Path:
    """A model whose layers are multiplied by powers of a factor."""
    shutil.copytree(folder, target)
    file = target / "model.safetensors"
    weights = load_file(file)
    for layer, power in powers.items():
        weights[f"{layer}.weight"] = weights[f"{layer}.weight"] * factor**power
    save_file(weights, file, {"format": "pt"})
    return target


def _rung(model: Path, out: Path) -> Rung:
    bundle = edgec.export(model, target="iphone", format="mlpackage", recipe="float", context=128, out=out)
    return open_bundle(bundle).manifest.parity[-1]


def _value(error: InputError) -> float:
    return float(error.what.split("up to ")[1].split(", which")[0].replace(",", ""))


@pytest.mark.sweep(1)
@pytest.mark.slow
@pytest.mark.parametrize("layer", PLACES)
def test_huge_values_are_refused_by_layer_and_a_little_less_passes(
    layer: str, tiny_folder: Path, tmp_path: Path
) -> None:
    powers = PLACES[layer]
    with pytest.raises(InputError) as caught:
        _rung(_scaled(tiny_folder, tmp_path / "huge", powers, FACTOR), tmp_path / "huge.edgec")
    assert caught.value.code == "E830" and caught.value.where == layer
    assert not (tmp_path / "huge.edgec").exists()
    # What is so large is the factor's alone: a fitting one follows from what was measured on the first chunk, and
    # later tokens make up to 1.3 times as much of it.
    fitting = FACTOR * 3.9e4 / _value(caught.value)
    rung = _rung(_scaled(tiny_folder, tmp_path / "fits", powers, fitting), tmp_path / "fits.edgec")
    largest = float(rung.values.removeprefix("largest activation ").split(", in ")[0].replace(",", ""))
    assert rung.passed and largest == pytest.approx(3.9e4, rel=0.01) and rung.values.endswith(layer)
