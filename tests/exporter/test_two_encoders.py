"""One encoder of CLIP or SigLIP, exported from the whole model's folder: an app embeds a text or an image alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import edgec
from benchmarks.coverage_parts.tiny_modules import module_model
from edgec.bundle.folder import read_manifest
from edgec.errors import InputError
from edgec.exporter.dimensions.shapes import model_shape
from edgec.exporter.sources.encoders.two_encoders import IMAGE_TASK, TEXT_TASK

pytestmark = pytest.mark.long
KINDS = ("clip", pytest.param("siglip", marks=pytest.mark.slow))


def folder_of(kind: str, folder: Path) -> tuple[Any, Path]:
    """A tiny random model with both encoders, and its folder."""
    model = module_model(kind)
    model.save_pretrained(folder / kind)
    return model, folder / kind


def close(made: Any, wanted: torch.Tensor) -> bool:
    """Whether vectors agree to 1e-4 of the largest value: float32 in another order."""
    return bool(np.abs(made - wanted.numpy()).max() <= 1e-4 * float(wanted.abs().max()))


def vector_of(found: dict[str, Any], width: int) -> Any:
    """The output with one vector for the input."""
    return next(value for value in found.values() if value.shape == (1, width))


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_alone_has_the_whole_models_vector(kind: str, tmp_path: Path) -> None:
    model, folder = folder_of(kind, tmp_path)
    made = edgec.load(edgec.export(folder, task=TEXT_TASK, recipe="float", out=tmp_path / "text.edgec"))
    assert made.bundle.manifest.model.task == TEXT_TASK
    for length in (1, 5):
        ids = torch.randint(4, 90, (1, length), generator=torch.Generator().manual_seed(length))
        mask = torch.ones_like(ids)
        with torch.no_grad():
            wanted = model.get_text_features(input_ids=ids, attention_mask=mask).pooler_output
        found = made.run(input_ids=ids.numpy(), attention_mask=mask.numpy())
        assert close(vector_of(found, wanted.shape[1]), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_image_alone_has_the_whole_models_vector(kind: str, tmp_path: Path) -> None:
    model, folder = folder_of(kind, tmp_path)
    made = edgec.load(edgec.export(folder, task=IMAGE_TASK, recipe="float", out=tmp_path / "image.edgec"))
    size = model.config.vision_config.image_size
    pixels = torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = model.get_image_features(pixel_values=pixels).pooler_output
    assert close(vector_of(made.run(pixel_values=pixels.numpy()), wanted.shape[1]), wanted)


def test_both_bundles_together_store_each_weight_once(tmp_path: Path) -> None:
    model, folder = folder_of("clip", tmp_path)
    bundles = [
        edgec.export(folder, task=task, recipe="float", out=tmp_path / f"{task}.edgec")
        for task in (TEXT_TASK, IMAGE_TASK)
    ]
    counted = [read_manifest(bundle).model.parameters for bundle in bundles]
    # All but the temperature, with which only the whole model compares vectors.
    assert sum(counted) == sum(p.numel() for p in model.parameters()) - 1
    config = json.loads((folder / "config.json").read_text())
    for task, count in zip((TEXT_TASK, IMAGE_TASK), counted, strict=True):
        shape = model_shape(config, task=task, folder=folder / "config.json")
        assert sum(each.count for each in shape.parameters) == count
        assert shape.encoder is not None and shape.encoder.activation_bytes is not None


def test_other_models_have_no_such_task(tmp_path: Path) -> None:
    module_model("vit").save_pretrained(tmp_path / "vit")
    with pytest.raises(InputError) as error:
        edgec.export(tmp_path / "vit", task=TEXT_TASK, out=tmp_path / "x.edgec")
    assert error.value.code == "E146"
