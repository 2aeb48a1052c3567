"""Which models have vision that edgec knows, and configs that do not say what they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.exporter.sources.multimodal.vision_language import vision_of
from edgec.exporter.sources.resolve import resolve
from tests.vision_language import FAMILIES
from tests.vision_sized import SIZED
from tests.vision_words import IMAGE_TOKEN


def saved(family: str, folder: Path, **vision: Any) -> Path:
    """A config with other values for the image encoder."""
    config = json.loads(FAMILIES[family]().config.to_json_string(use_diff=False))
    config["vision_config"].update(vision)
    architecture = type(FAMILIES[family]()).__name__
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [architecture]}))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_known_with_its_tile_and_its_token(family: str, tmp_path: Path) -> None:
    source = resolve(str(saved(family, tmp_path)), random_weights=True)
    # Where the encoder reads images of any size, the default has 16 x 16 rows, here of 8 x 8 pixels.
    edge = 128 if family in SIZED else 24 if family in ("llava", "paligemma") else 32
    assert source.kind == "vision-language" and source.vision is not None
    assert source.vision.shape == (3, edge, edge) and source.vision.image_token == IMAGE_TOKEN
    assert source.vision.grid == ((16, 16) if family.startswith("qwen") else None)
    assert source.task == "image-text-to-text" and source.config["num_hidden_layers"] == 2


def test_the_text_part_can_be_asked_for(tmp_path: Path) -> None:
    source = resolve(str(saved("llava", tmp_path)), random_weights=True, task="text-generation")
    assert source.kind == "decoder" and source.vision is None


@pytest.mark.parametrize("size", [None, 0, 1 << 20, [32]])
def test_sizes_that_make_no_sense_are_refused(size: Any, tmp_path: Path) -> None:
    config = FAMILIES["llava"]().config
    config.vision_config.__dict__["image_size"] = size
    with pytest.raises(InputError) as error:
        vision_of(config, tmp_path)
    assert error.value.code == "E650"


def test_a_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    config = FAMILIES["llava"]().config
    config.image_token_id = config.text_config.vocab_size
    with pytest.raises(InputError) as error:
        vision_of(config, tmp_path)
    assert error.value.code == "E650"


@pytest.mark.parametrize("vision", [{"patch_size": [4, 4]}, {"patch_size": 0}, {"spatial_merge_size": 1 << 20}])
def test_patches_that_make_no_sense_are_refused(vision: dict[str, Any], tmp_path: Path) -> None:
    config = FAMILIES["qwen2_vl"]().config
    config.vision_config.__dict__.update(vision)
    with pytest.raises(InputError) as error:
        vision_of(config, tmp_path)
    assert error.value.code == "E650"


AHEAD = {"text_config": {"use_bidirectional_attention": "vision"}}


@pytest.mark.parametrize(
    "config, why",
    [
        ({"model_type": "cohere2_vision"}, "with torchvision only"),
        ({"model_type": "gemma3n"}, "it knows those of"),
        ({"model_type": "gemma4"}, "no vision_config"),
        ({**AHEAD, "model_type": "gemma4", "vision_config": {}}, "is 'vision'"),
    ],
)
def test_vision_encoders_that_edgec_cannot_export_are_refused_with_the_reason(
    config: dict[str, Any], why: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError) as error:
        resolve(str(tmp_path), random_weights=True, task="image-text-to-text")
    assert error.value.code == "E722" and why in (error.value.why or "")
