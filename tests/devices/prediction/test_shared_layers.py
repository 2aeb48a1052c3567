"""Plans of models whose last layers read an earlier layer's keys and values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.prediction.footprint import Widths, kv_bytes
from edgec.devices.prediction.forecast import Plan, plan
from edgec.devices.prediction.shared_layers import prompt_share, without_shared
from edgec.devices.targets import load_target
from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import decoder_shape, parameters
from edgec.exporter.resolve.widths import model_widths, named_widths
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir.kv_donors import shared_spec

LAYERS, HIDDEN, HEADS, KV_HEADS = 8, 64, 4, 2
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": 128,
    "vocab_size": 320,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}
KV_ROWS = KV_HEADS * HIDDEN // HEADS


def planned(boundary: float | None) -> Plan:
    widths = Widths(kv_bits=16, kv_boundary=boundary)
    return plan(decoder_shape(LLAMA), load_target("oneplus-12-cpu"), widths, context=128, prompt_tokens=64)


@pytest.mark.long
@pytest.mark.parametrize(("boundary", "kept"), [(0.625, 5), (0.5, 4), (3, 3)])
def test_the_cache_shrinks_to_the_layers_that_keep_one(boundary: float, kept: int) -> None:
    assert planned(boundary).footprint.kv_bytes * LAYERS == planned(None).footprint.kv_bytes * kept


@pytest.mark.parametrize(("family", "name"), [("llama", "k_proj"), ("phi3", "qkv_proj"), ("qwen3", "k_norm")])
def test_readers_lose_their_projections(family: str, name: str) -> None:
    config = LLAMA | {"model_type": family, "head_dim": HIDDEN // HEADS, "pad_token_id": 0}
    before, listed = model_spec(config), parameters(config)
    after = shared_spec(before, 5)
    left = without_shared(listed, before, after)
    norms = 3 * (HIDDEN // HEADS) if name == "k_norm" else 0
    assert sum(p.count for p in listed) - sum(p.count for p in left) == 3 * 2 * KV_ROWS * HIDDEN + norms
    assert any(name in p.name for p in left)


def test_a_prompt_skips_the_layers_after_the_last_cache() -> None:
    before, listed = model_spec(LLAMA), parameters(LLAMA)
    after = shared_spec(before, 5)
    left = without_shared(listed, before, after)
    reader = 2 * HIDDEN * HIDDEN + 3 * HIDDEN * 128
    keeper = reader + 2 * KV_ROWS * HIDDEN
    assert prompt_share(listed, before) == 1.0
    assert prompt_share(left, after) == pytest.approx(5 * keeper / (5 * keeper + 3 * reader))


def test_integers_of_a_cache_carry_their_grids() -> None:
    spec, head = model_spec(LLAMA), HIDDEN // HEADS
    values = 2 * LAYERS * KV_HEADS
    assert kv_bytes(spec, 16, 10) == 10 * values * head * 2
    assert kv_bytes(spec, 8, 10) == 10 * values * (head + 4)
    assert kv_bytes(spec, 4, 10) == 10 * values * (head // 2 + 4)


def folder_of(path: Path, record: dict[str, Any] | None, recipe: str | None = None) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(LLAMA | ({"edgec": record} if record else {})))
    if recipe is not None:
        (path / "adapted.toml").write_text(recipe)
    return path


def test_an_adapted_folder_is_planned_as_it_was_trained(tmp_path: Path) -> None:
    target = load_target("oneplus-12-cpu")
    record = {"mode": "reuse", "boundary": 5, "recipe": "adapted.toml"}
    own = '[weights]\nbits = 8\ngroup_size = 0\n[cache]\ndtype = "int8"\n[shared_kv]\nboundary = "auto"\n'
    plain = model_widths(folder_of(tmp_path / "plain", None), None, target)
    bare = model_widths(folder_of(tmp_path / "bare", {"mode": "reuse", "boundary": 5}), None, target)
    adapted = model_widths(folder_of(tmp_path / "adapted", record, own), None, target)
    assert plain == named_widths("4bit", "xnnpack") and bare == replace(plain, kv_boundary=5)
    assert (adapted.weight_bits, adapted.kv_bits, adapted.kv_boundary) == (8, 8, 5)
    assert model_widths(tmp_path / "adapted", "4bit", target) == replace(named_widths("4bit", "xnnpack"), kv_boundary=5)
    projecting = model_widths(folder_of(tmp_path / "project", {"mode": "project", "boundary": 5}), None, target)
    assert projecting.kv_boundary is None


def test_an_open_boundary_cannot_be_planned(tmp_path: Path) -> None:
    file = tmp_path / "open.toml"
    file.write_text('[shared_kv]\nboundary = "auto"\n')
    widths = model_widths(folder_of(tmp_path / "model", None), str(file), load_target("oneplus-12-cpu"))
    with pytest.raises(InputError) as caught:
        plan(decoder_shape(LLAMA), load_target("oneplus-12-cpu"), widths)
    assert caught.value.code == "E510"
