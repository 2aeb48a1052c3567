"""`--target iphone`: the model decides which phone that is, and the manifest says why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.devices.prediction.forecast import default_widths
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import decoder_shape, read_config
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.resolve.target_choice import choose_target, needed_bytes, plan_target
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories"


def test_a_family_becomes_a_phone_with_a_reason() -> None:
    source, recipe = resolve(str(EXAMPLE)), load_recipe("4bit")
    asked = replace(load_target("iphone"), layout="genai")
    target, reason = choose_target(asked, source, recipe, None)
    assert target.layout == "genai", "kept"
    assert target.phone == "iphone-13" and target.format == load_target("iphone").format
    assert reason.startswith("Runs on Apple iPhone 13 or newer (estimated): the model needs ")


def test_a_named_phone_is_left_alone() -> None:
    source, recipe = resolve(str(EXAMPLE)), load_recipe("4bit")
    for name in ("iphone-16-pro", "host", "android-cpu"):
        assert choose_target(load_target(name), source, recipe, None) == (load_target(name), "")


def test_memory_counts_weights_and_caches() -> None:
    source, recipe = resolve(str(EXAMPLE)), load_recipe("4bit")
    short, long = (needed_bytes(source, recipe, context) for context in (64, 512))
    layers, key_value, kv_heads, head_dim = 8, 2, source.config["num_key_value_heads"], source.config["head_dim"]
    assert long - short == (512 - 64) * layers * key_value * kv_heads * head_dim * 2
    assert short > 5_000_000 * 4 / 8


@pytest.mark.long
def test_a_plan_for_the_family_is_that_of_the_chosen_phone() -> None:
    config, asked = read_config(str(EXAMPLE)), load_target("iphone")
    planned, reason = plan_target(decoder_shape(config), asked, default_widths(asked))
    assert planned.target.phone == "iphone-13" and planned.target.phone_name in reason
    named = load_target("iphone-16-pro")
    assert plan_target(decoder_shape(config), named, default_widths(named))[1] == ""
    large = {**config, "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32, "head_dim": 128}
    large |= {
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128000,
        "max_position_embeddings": 4096,
    }
    assert (
        plan_target(decoder_shape(large), asked, replace(default_widths(asked), weight_bits=4))[0].target.phone
        == "iphone-15-pro"
    )


def test_a_long_context_that_nobody_asked_for_does_not_count(tmp_path: Path) -> None:
    """A static cache is allocated whole, so its length is the format's own unless the user or the recipe names one."""
    config = json.loads((EXAMPLE / "config.json").read_text()) | {"max_position_embeddings": 4_000_000}
    (tmp_path / "config.json").write_text(json.dumps(config))
    source, recipe = resolve(str(tmp_path / "config.json"), random_weights=True), load_recipe("4bit")
    asked = load_target("iphone")
    assert choose_target(asked, source, recipe, None)[0].phone == "iphone-13"
    with pytest.raises(InputError) as caught:
        choose_target(asked, source, recipe, 4_000_000)
    assert caught.value.code == "E467"


def test_a_factory_needs_its_modules_weights_in_the_artifacts_floats() -> None:
    import torch

    from edgec.exporter.recipes.file import load_recipe

    layer = torch.nn.Linear(100, 50, bias=False)
    source = ModelSource(name="layer", kind="module", source="layer", factory=lambda: (layer, (torch.ones(1, 100),)))
    assert needed_bytes(source, load_recipe("float"), None, 16) == 100 * 50 * 2
    assert needed_bytes(source, load_recipe("float"), None) == 100 * 50 * 4
