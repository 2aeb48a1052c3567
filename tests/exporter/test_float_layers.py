"""Layers that float16 does not hold are kept in float32, found by edgec or named with ``--keep-float``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import edgec
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from tests.exporter import float_layers

LOUD, DIFFERENCE = "tests.exporter.float_layers:loud", "tests.exporter.float_layers:difference"
FORMATS = [
    "mlpackage",
    pytest.param("pte", marks=pytest.mark.long),
    pytest.param("aimodel", marks=pytest.mark.long),
]
# Of the largest output: float16 keeps 11 bits, and a few layers follow each other.
HALF = 5e-3


def off(bundle: Path, name: str, times: float = 1.0) -> float:
    """How far a bundle is from its network, of the largest output."""
    module, (x,) = getattr(float_layers, name)()
    with torch.no_grad():
        wanted = module(times * x)
    (got,) = edgec.load(bundle).run(x=(times * x).numpy()).values()
    return float((torch.as_tensor(got) - wanted).abs().max() / wanted.abs().max())


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_a_layer_whose_sums_overflow_is_found_and_kept(format: str, tmp_path: Path) -> None:
    out = edgec.export(LOUD, target="iphone", format=format, out=tmp_path / "x.edgec")
    manifest = read_manifest(out)
    assert manifest.recipe["keep_float"] == ["power"]
    assert manifest.bits_line.endswith("float, 1 layer (power) in float32 instead")
    assert "float16 does not hold" in manifest.bits_line
    # Four times as loud as well.
    assert max(off(out, "loud"), off(out, "loud", 4.0)) < HALF


@pytest.mark.slow
def test_a_difference_that_float16_loses_is_found_and_kept(tmp_path: Path) -> None:
    out = edgec.export(DIFFERENCE, target="iphone", format="mlpackage", out=tmp_path / "x.edgec")
    kept = read_manifest(out).recipe["keep_float"]
    assert "large" in kept and "last" not in kept
    assert off(out, "difference") < HALF


@pytest.mark.slow
def test_given_inputs_are_tried_four_times_as_large(tmp_path: Path) -> None:
    """Sums of 10,000 on the inputs, which float16 holds, are 160,000 on those times 4."""
    _, (x,) = float_layers.loud()
    np.savez(tmp_path / "quiet.npz", x=np.stack([x.numpy(), 0.9 * x.numpy()]))
    out = edgec.export(
        "tests.exporter.test_float_layers:quiet",
        target="iphone",
        format="mlpackage",
        inputs=tmp_path / "quiet.npz",
        out=tmp_path / "x.edgec",
    )
    assert read_manifest(out).recipe["keep_float"] == ["power"]


def quiet() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The network without its norm, on whose ordinary inputs all sums are below 60,000."""
    module, inputs = float_layers.loud()
    assert isinstance(module, float_layers.Loud)
    module.norm = torch.nn.Identity()  # type: ignore[assignment]
    with torch.no_grad():
        module.first.weight.mul_(0.9)
        module.first.bias.zero_()
    return module, inputs


@pytest.mark.slow
def test_named_layers_are_kept_at_once(tmp_path: Path) -> None:
    out = edgec.export(
        LOUD, target="iphone", format="mlpackage", keep_float=["power", "norm:*"], out=tmp_path / "x.edgec"
    )
    manifest = read_manifest(out)
    assert manifest.recipe["keep_float"] == ["power", "norm:*"] and manifest.tried_recipes == []
    assert off(out, "loud") < HALF


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "layer", "code", "said"),
    [("iphone", "powr", "E882", "use one of power"), ("snapdragon-8-gen-3", "power", "E883", "fixed point")],
)
def test_what_cannot_be_kept_is_refused(target: str, layer: str, code: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        edgec.export(LOUD, target=target, keep_float=[layer], out=tmp_path / "x.edgec")
    assert refused.value.code == code and said in f"{refused.value.why} {refused.value.fix}"


def test_a_language_model_keeps_none(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        edgec.export(tiny_folder, target="iphone", keep_float=["norm"], out=tmp_path / "x.edgec")
    assert refused.value.code == "E884"
