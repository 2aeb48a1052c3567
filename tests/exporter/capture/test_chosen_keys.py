"""Layers that choose their keys choose all of them up to a number of tokens, and a longer context is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.errors import InputError
from edgec.exporter.capture.chosen_keys import EveryKey, OpenMask, attend_to_every_key
from edgec.exporter.capture.decoder import Skeleton
from edgec.exporter.capture.rows_in_text import capture_forward
from edgec.exporter.capture.untraceable import refuse_unheld_layers
from edgec.exporter.dimensions.parameters import parameters
from edgec.exporter.options import ExportOptions
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.sources.decoders.key_choice import keys_before_choice
from edgec.exporter.sources.decoders.spec import model_spec

# Sizes of each kind's indexers, and how many keys a token then attends to without a choice.
FEW: Mapping[str, tuple[Mapping[str, int], int]] = {
    "deepseek_v32": ({"index_topk": 12}, 12),
    # Two blocks, of which the token's own is one.
    "minimax_m3_vl_text": ({"index_block_size": 8, "index_topk_blocks": 2}, 16),
    # Four whole blocks, and up to three keys after the last whole one.
    "qwen4_exp_text": ({"indexer_budget": 16, "indexer_compress_ratio": 4}, 19),
}
MANY = {"index_topk": 128, "index_topk_blocks": 16, "indexer_budget": 128}


def model(kind: str, sizes: Mapping[str, int]) -> Any:
    config = tiny_config(kind)
    for name, value in sizes.items():
        setattr(config, name, value)
    return tiny_model(config)


def logits(of: nn.Module, tokens: int) -> torch.Tensor:
    text = torch.randint(5, 200, (1, tokens), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        read: torch.Tensor = of(text, use_cache=False).logits[0, -1]
    return read


@pytest.mark.parametrize("kind", FEW)
def test_nothing_is_chosen_up_to_as_many_keys_as_are_kept(kind: str) -> None:
    sizes, kept = FEW[kind]
    few = model(kind, sizes)
    many = model(kind, {name: MANY.get(name, value) for name, value in sizes.items()})
    assert torch.equal(logits(few, kept), logits(many, kept))
    assert not torch.equal(logits(few, kept + 1), logits(many, kept + 1)), "one more key is too many"
    with pytest.raises(InputError, match=f"from {kept + 1} tokens on") as raised:
        attend_to_every_key(few, kept + 1)
    assert raised.value.code == "E740" and f"--context {kept}" in raised.value.fix
    attend_to_every_key(few, kept)
    assert any(isinstance(module, EveryKey) for module in few.modules())
    assert not any(type(module).__name__.endswith("Indexer") for module in few.modules())


@pytest.mark.parametrize("kind", FEW)
def test_a_config_says_how_many_before_a_model_is_built(kind: str) -> None:
    sizes, kept = FEW[kind]
    config = {**json.loads(tiny_config(kind).to_json_string()), **sizes}
    assert keys_before_choice(config) == kept
    assert model_spec(config).context == kept, "it is the longest context, and the usual one where it is short"


@pytest.mark.parametrize("field", ["index_topk", "index_block_size", "indexer_compress_ratio", "keep_window_size"])
def test_a_number_of_keys_that_makes_no_sense_is_refused(field: str) -> None:
    config = json.loads(tiny_config("deepseek_v32").to_json_string())
    with pytest.raises(InputError, match=field) as raised:
        model_spec({**config, field: -1})
    assert raised.value.code == "E111"


def test_a_longer_context_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    model("deepseek_v32", {"index_topk": 12}).config.save_pretrained(tmp_path)
    options = ExportOptions(tmp_path, target="host", random_weights=True, task="text-generation")
    assert resolve_options(options).request.limits.context == 12
    with pytest.raises(InputError, match="from 13 tokens on") as raised:
        resolve_options(replace(options, context=13))
    assert raised.value.code == "E740" and "--context 12" in raised.value.fix


def test_an_indexer_of_sums_of_keys_stays_and_is_refused() -> None:
    four = model("deepseek_v4", {})
    attend_to_every_key(four)
    with pytest.raises(InputError, match="DeepseekV4Indexer") as raised:
        refuse_unheld_layers(four)
    assert raised.value.code == "E109"


def test_layers_may_share_an_indexer() -> None:
    own = model("deepseek_v32", {}).model.layers
    own[1].self_attn.indexer = own[0].self_attn.indexer
    attend_to_every_key(own)
    assert all(isinstance(layer.self_attn.indexer, EveryKey) for layer in own)


class DogeAttention(nn.Module):
    keep_window_size: int

    def __init__(self) -> None:
        super().__init__()
        self.keep_window_size = 32


class KeyIndexer(nn.Module):
    """One of which nothing says how many keys it keeps."""


def test_layers_without_a_module_that_chooses_are_held_to_their_number() -> None:
    attend_to_every_key(nn.Sequential(DogeAttention()), 32)
    with pytest.raises(InputError, match="from 33 tokens on"):
        attend_to_every_key(nn.Sequential(DogeAttention()), 33)


def test_what_does_not_say_how_many_keys_it_keeps_stays() -> None:
    stays = nn.Sequential(nn.Identity(), KeyIndexer())
    attend_to_every_key(stays, 1 << 20)
    assert isinstance(stays[1], KeyIndexer)


def test_an_open_mask_stays_open() -> None:
    mask = OpenMask()
    assert mask[:, 0, :, :] & EveryKey()(torch.zeros(1), past_key_values=None) == mask


def test_a_plan_counts_no_indexers() -> None:
    config = json.loads(tiny_config("deepseek_v32").to_json_string())
    built = sum(tensor.numel() for name, tensor in tiny_model(tiny_config("deepseek_v32")).named_parameters())
    planned = parameters(config)
    assert not [each.name for each in planned if ".indexer." in each.name]
    indexer = 4 * (32 * 4 * 32 + 64 * 32 + 2 * 32 + 64 * 4)  # four layers: queries, keys, their norm, weights of heads
    assert sum(math.prod(each.shape) for each in planned) == built - indexer


def test_a_decoder_among_rows_of_images_is_held_to_its_number() -> None:
    skeleton: Any = Skeleton(nn.Sequential(DogeAttention()), {})
    given: Any = None
    with pytest.raises(InputError, match="from 33 tokens on"):
        capture_forward(skeleton, given, given, given, 64, 33)
