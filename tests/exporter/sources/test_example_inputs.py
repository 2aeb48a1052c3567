"""Example inputs have the shapes that a model's config states, for each kind of input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.coverage_parts.tiny_modules import module_model
from edgec.errors import InputError
from edgec.exporter.sources.example_inputs import example_inputs, text_lengths

SHAPES = {
    "bert": {"input_ids": (1, 128), "attention_mask": (1, 128)},
    "clip": {"input_ids": (1, 128), "attention_mask": (1, 128), "pixel_values": (1, 3, 32, 32)},
    "owlvit": {"input_ids": (1, 16), "attention_mask": (1, 16), "pixel_values": (1, 3, 32, 32)},
    "detr": {"pixel_values": (1, 3, 224, 224)},
    "depth_anything": {"pixel_values": (1, 3, 64, 64)},
    "sam": {"pixel_values": (1, 3, 64, 64), "input_points": (1, 1, 1, 2), "input_labels": (1, 1, 1)},
    "wav2vec2": {"input_values": (1, 16_000)},
    "audio-spectrogram-transformer": {"input_values": (1, 64, 32)},
    "whisper": {"input_features": (1, 16, 64)},
    "parakeet_ctc": {"input_features": (1, 100, 16)},
    "wav2vec2-bert": {"input_features": (1, 100, 32)},
}


@pytest.mark.parametrize(("kind", "shapes"), SHAPES.items(), ids=SHAPES)
def test_shapes_are_those_of_the_config(kind: str, shapes: dict[str, tuple[int, ...]]) -> None:
    model = module_model(kind)
    made = example_inputs(model, None)
    assert {name: tuple(value.shape) for name, value in made.items()} == shapes
    again, other = example_inputs(model, None), example_inputs(model, None, seed=1)
    assert all(torch.equal(made[name], again[name]) for name in made)
    assert any(not torch.equal(made[name], other[name]) for name in made)


def test_a_detector_reads_images_of_its_preprocessors_size(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 64, "width": 96}}))
    assert example_inputs(module_model("detr"), tmp_path)["pixel_values"].shape == (1, 3, 64, 96)


@pytest.mark.parametrize(
    ("kind", "most"), [("bert", 256), ("roberta", 255), ("mpnet", 254), ("t5", 512), ("clip", None), ("vit", None)]
)
def test_a_text_may_have_as_many_tokens_as_there_are_positions(kind: str, most: int | None) -> None:
    lengths = text_lengths(module_model(kind))
    assert (None if lengths is None else (lengths.low, lengths.high)) == (None if most is None else (1, most))


def test_a_text_is_no_longer_than_asked_for() -> None:
    model = module_model("bert")
    lengths = text_lengths(model, 40)
    assert lengths is not None and lengths.high == 40
    assert example_inputs(model, None, longest=40)["input_ids"].shape == (1, 40)


def test_a_model_that_is_asked_with_the_shape_of_each_image_is_refused() -> None:
    with pytest.raises(InputError, match="shape that comes with each image") as caught:
        example_inputs(module_model("siglip2"), None)
    assert caught.value.code == "E149"


def test_an_encoder_decoder_is_refused() -> None:
    from transformers import T5Config, T5Model

    with torch.device("meta"):
        model = T5Model(T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=16))
    with pytest.raises(InputError, match="encoder-decoder") as caught:
        example_inputs(model, None)
    assert caught.value.code == "E149"
