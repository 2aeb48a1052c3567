"""What preprocessor_config.json states of images and sounds, beside transformers' own processors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from edgec.bundle.input_preparation import ImagePreparation, SoundPreparation
from edgec.exporter.sources.stated_preparation import stated_preparation
from edgec.runtime_py.functions.prepared_inputs import InputForm, prepared_image

MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]
VIT: dict[str, Any] = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 32, "width": 32},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": MEAN,
    "image_std": STD,
}
CLIP = VIT | {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 36},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 32, "width": 32},
}
INPUTS = {"pixel_values": torch.zeros(1, 3, 32, 32)}
SOUND = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16_000, "do_normalize": True}


def picture(width: int, height: int) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (height // 4, width // 4, 3)).astype(np.uint8)
    return Image.fromarray(values).resize((width, height))


@pytest.mark.parametrize("stated", [VIT, CLIP], ids=["vit", "clip"])
@pytest.mark.parametrize("size", [(60, 40), (40, 60), (48, 48)])
def test_images_become_what_transformers_makes_of_them(stated: dict[str, Any], size: tuple[int, int]) -> None:
    import transformers

    maker = getattr(transformers, f"{stated['image_processor_type']}Pil", None)
    maker = maker or getattr(transformers, stated["image_processor_type"])
    fields = {name: value for name, value in stated.items() if name != "image_processor_type"}
    wanted = maker(**fields)(picture(*size), return_tensors="np")["pixel_values"]
    how = stated_preparation(stated, INPUTS)["pixel_values"]
    assert isinstance(how, ImagePreparation)
    found = prepared_image(picture(*size), how, InputForm("pixel_values", (1, 3, 32, 32), "float32"))
    # The same steps in float32: the last place, over a spread of 0.26.
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_sounds_have_a_rate_and_a_level() -> None:
    waves = {"input_values": torch.zeros(1, 16_000)}
    found = stated_preparation(SOUND, waves)
    assert found == {"input_values": SoundPreparation(kind="sound", rate=16_000, level="mean_and_spread")}
    plain = stated_preparation(SOUND | {"do_normalize": False}, waves)["input_values"]
    assert isinstance(plain, SoundPreparation) and plain.level == "as_read"
    assert stated_preparation(SOUND, {"input_values": torch.zeros(1, 100, 128)}) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"image_processor_type": "ConvNextImageProcessor"},
        {"do_pad": True},
        {"do_resize": False},
        {"size": {"height": 40, "width": 40}},
        {"size": "large"},
        {"size": {"longest_edge": 32}},
        {"resample": None},
        {"resample": 9},
        {"image_mean": None},
        {"image_std": [0, 1, 1]},
        {"rescale_factor": "a"},
    ],
)
def test_of_anything_else_nothing_is_stated(changed: dict[str, Any]) -> None:
    assert stated_preparation(VIT | changed, INPUTS) == {}


def test_a_crop_of_another_size_states_nothing() -> None:
    assert stated_preparation(CLIP | {"crop_size": 30}, INPUTS) == {}
    assert stated_preparation(CLIP | {"do_center_crop": False}, INPUTS) == {}
    assert stated_preparation({}, INPUTS) == {} and stated_preparation(VIT, {"input_ids": torch.zeros(1, 4)}) == {}
