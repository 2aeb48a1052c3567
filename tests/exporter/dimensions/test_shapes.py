"""The shapes of models that are not text decoders: every parameter once, and what their encoders need."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from edgec.backends.forms import FORMS
from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.forecast import plan
from edgec.devices.prediction.parameters import Kind
from edgec.devices.targets import load_target
from edgec.exporter.dimensions.parameters import decoder_shape
from edgec.exporter.dimensions.shapes import model_shape

ARCHITECTURES = Path(__file__).parents[3] / "benchmarks" / "architectures"
CPU = load_target("oneplus-12-cpu")


def config_of(name: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((ARCHITECTURES / f"{name}.json").read_text())
    return made


def built(config: dict[str, Any], maker: str) -> Any:
    import transformers

    cls = getattr(transformers, config["architectures"][0])
    assert cls.__name__ == maker
    with torch.device("meta"):
        return cls(cls.config_class.from_dict(config))


def weights_of(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "maker"), [("tiny-minilm", "BertModel"), ("tiny-vit", "ViTForImageClassification")])
def test_an_encoder_has_weights_and_activations_and_writes_nothing(name: str, maker: str) -> None:
    config = config_of(name)
    made = plan(model_shape(config), CPU)
    assert made.parameters == weights_of(built(config, maker))
    assert (made.context, made.prompt_tokens, made.footprint.kv_bytes) == (0, 0, 0)
    assert made.speeds.decode_tokens_per_s is None and "with an encoder" in made.notes[-1]
    assert {part.name for part in made.footprint.parts} >= {"linear", "activations"}


def test_longer_texts_need_more() -> None:
    config = config_of("tiny-minilm")
    short, long = (model_shape(config, context=tokens).encoder for tokens in (16, 64))
    assert short and long and short.activation_bytes and long.activation_bytes
    assert long.activation_bytes > short.activation_bytes


def test_a_decoder_keeps_keys_and_values_of_what_its_encoder_read() -> None:
    config = config_of("tiny-whisper")
    shape = model_shape(config)
    assert sum(each.count for each in shape.parameters) == weights_of(built(config, "WhisperForConditionalGeneration"))
    # Two layers with two heads of 16, over the 50 states of a window.
    assert shape.encoder is not None and shape.encoder.memory_values == 2 * 2 * 2 * 16 * 50
    made = plan(shape, CPU, Widths(32, 0, 32, 32, 32))
    assert made.context == 64 and made.footprint.kv_bytes == 2 * 2 * 2 * 16 * 64 * 4
    parts = {part.name: part.bytes for part in made.footprint.parts}
    assert parts["keys and values of the source"] == 4 * shape.encoder.memory_values


def test_matrices_of_convolutions_have_a_row_for_each_channel() -> None:
    shape = model_shape(config_of("tiny-whisper"))
    sizes = {each.name: each.shape for each in shape.parameters if each.kind is Kind.LINEAR}
    assert sizes["model.encoder.conv1.weight"] == (32, 16 * 3)


def test_vision_encoders_lie_beside_the_decoder_and_no_token_reads_them() -> None:
    config = config_of("tiny-smolvlm")
    shape, text = model_shape(config), decoder_shape(config)
    assert shape.parameters == text.parameters and shape.encoder is not None and shape.encoder.activation_bytes is None
    whole = plan(shape, CPU)
    assert whole.parameters == weights_of(built(config, "Idefics3ForConditionalGeneration"))
    assert whole.footprint.read_bytes == plan(text, CPU).footprint.read_bytes
    assert whole.footprint.size_bytes.low > plan(text, CPU).footprint.size_bytes.low
    assert any("encoder needs" in note for note in whole.notes)


@pytest.mark.long
def test_formats_of_fixed_shapes_and_the_text_task_take_the_text_part() -> None:
    config = config_of("tiny-smolvlm")
    static, asked = model_shape(config, form=FORMS["vulkan", "pte"]), model_shape(config, task="text-generation")
    assert static.encoder is None and "its vision are not counted" in static.remarks[0]
    assert asked == decoder_shape(config)
    assert model_shape(config, form=FORMS["coreml", "mlpackage"]) == model_shape(config)
