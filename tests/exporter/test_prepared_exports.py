"""Exports judged on images and sounds: their bundles say how these are prepared, and run on them."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from edgec import export, load
from edgec.bundle.folder import read_manifest
from edgec.bundle.input_preparation import ImagePreparation, SoundPreparation
from edgec.errors import InputError
from edgec.exporter.sources.modules.given_inputs import read_inputs
from edgec.exporter.stages.judged_inputs import judged_inputs

PLACE = "tests.exporter.test_prepared_exports"


def seeing() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, dict[str, object]]]:
    """Means of colours, which a user can check by eye."""
    pooled = nn.Sequential(nn.AvgPool2d(8), nn.Flatten())
    return pooled, (torch.rand(1, 3, 8, 8),), {"input": {"kind": "image", "scale": 1, "mean": 127, "std": 128}}


def wrong() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, dict[str, object]]]:
    """A grey image declared for an input of three channels."""
    return nn.Flatten(), (torch.rand(1, 3, 8, 8),), {"input": {"kind": "image", "colours": "grey"}}


def malformed() -> tuple[nn.Module, tuple[Tensor, ...], dict[str, dict[str, object]]]:
    """An input that is not there."""
    return nn.Flatten(), (torch.rand(1, 3, 8, 8),), {"picture": {"kind": "image"}}


def photographs(folder: Path) -> Path:
    folder.mkdir()
    for index in range(4):
        pixels = np.random.default_rng(index).integers(0, 256, (16, 16, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index}.png")
    return folder


@pytest.mark.long
def test_a_bundle_says_how_images_are_prepared_and_runs_on_them(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "photos")
    bundle = export(f"{PLACE}:seeing", recipe="float", inputs=folder, out=tmp_path / "x.edgec")
    manifest = read_manifest(bundle)
    assert manifest.judged_on == "judged on 4 given inputs (photos)"
    assert manifest.prepared == {"input": ImagePreparation(kind="image", scale=1, mean=127, std=128)}
    (got,) = load(bundle).run(input=str(folder / "0.png")).values()
    (same,) = load(bundle).run(input=Image.open(folder / "0.png")).values()
    small = np.asarray(Image.open(folder / "0.png").resize((8, 8), Image.Resampling.BILINEAR), np.float64)
    # Means of 64 values of at most 1 in float32.
    np.testing.assert_allclose(got[0], (small.mean((0, 1)) - 127) / 128, atol=1e-5)
    np.testing.assert_array_equal(got, same)


@pytest.mark.long
@pytest.mark.parametrize(("factory", "code"), [("wrong", "E851"), ("malformed", "E850")])
def test_what_a_factory_declares_is_checked_before_any_work(factory: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        export(f"{PLACE}:{factory}", out=tmp_path / "x.edgec")
    assert refused.value.code == code


class Adds(nn.Module):
    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(-1), state + x[..., :2].abs()


def test_states_follow_from_window_to_window(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(8_000)
        stream.writeframes(np.random.default_rng(0).integers(-9_000, 9_000, 400).astype("<i2").tobytes())
    given = read_inputs(tmp_path / "a.wav", {"x": SoundPreparation(kind="sound", rate=8_000)})
    judged = judged_inputs(Adds(), (torch.randn(1, 100), torch.zeros(1, 2)), "adds", ["x", "state"], given)
    assert judged.given and len(judged.calls) == 4 and not judged.calls[0][1].isnan().any()
    for before, call in zip(judged.outputs, judged.calls[1:], strict=False):
        assert torch.equal(call[1], before[1])
    sums = [float(call[1].sum()) for call in judged.calls]
    assert sums == sorted(sums) and sums[1] < sums[3]
