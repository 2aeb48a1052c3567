"""The bits that a plan counts follow the default recipe of the model's kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.resolve.widths import model_widths, named_widths

BERT: dict[str, Any] = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 64, "num_hidden_layers": 2}
LLAMA: dict[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64}


def file_of(folder: Path, config: dict[str, Any]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("target", "bits", "group"), [("iphone-16-pro", 16, 0), ("oneplus-12-cpu", 8, 0), ("host", 8, 32)]
)
def test_an_encoder_is_planned_by_the_default_of_modules(target: str, bits: int, group: int, tmp_path: Path) -> None:
    widths = model_widths(file_of(tmp_path, BERT), None, load_target(target))
    assert (widths.weight_bits, widths.group_size) == (bits, group)


def test_an_encoder_on_a_phone_is_planned_for_standard_kernels(tmp_path: Path) -> None:
    file = file_of(tmp_path, BERT)
    here, phone = (model_widths(file, "4bit", load_target(name)) for name in ("host", "oneplus-12-cpu"))
    assert here != phone == model_widths(file, "4bit", load_target("android-cpu"))


def test_a_decoder_and_a_task_of_one_are_planned_in_4_bits(tmp_path: Path) -> None:
    phone = load_target("oneplus-12-cpu")
    assert model_widths(file_of(tmp_path, LLAMA), None, phone) == named_widths("4bit", phone.backend)
    assert model_widths(file_of(tmp_path, LLAMA), None, phone, "feature-extraction").weight_bits == 8


def test_a_recipe_that_the_target_does_not_execute_is_refused_for_encoders_too(tmp_path: Path) -> None:
    for name in ("host", "oneplus-12-cpu"):
        with pytest.raises(InputError) as caught:
            model_widths(file_of(tmp_path, BERT), "lut4", load_target(name))
        assert caught.value.code == "E172"
