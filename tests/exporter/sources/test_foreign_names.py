"""Configs as families write them: keys under other names, infinite numbers, attention code of their own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgec.errors import InputError
from edgec.exporter.capture import attention
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.stage_cache import stage_key
from tests.exporter.sources.fuzz_bases import CONFIGS
from tests.exporter.tiny_sources import LLAMA, write_config

GPTJ: Mapping[str, Any] = {
    "architectures": ["GPTJForCausalLM"],
    "model_type": "gptj",
    "n_layer": 3,
    "n_embd": 64,
    "n_head": 4,
    "n_positions": 96,
    "rotary_dim": 8,
    "vocab_size": 128,
}
MPT: Mapping[str, Any] = {
    "architectures": ["MptForCausalLM"],
    "model_type": "mpt",
    "n_layers": 2,
    "d_model": 32,
    "n_heads": 4,
    "max_seq_len": 48,
    "vocab_size": 128,
}


def _written(folder: Path, config: Mapping[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("config", "layers", "hidden", "heads", "context"),
    [(CONFIGS["gpt2"], 2, 32, 4, 64), (GPTJ, 3, 64, 4, 96), (MPT, 2, 32, 4, 2048)],
    ids=["gpt2", "gptj", "mpt"],
)
def test_a_family_may_have_names_of_its_own(
    tmp_path: Path, config: Mapping[str, Any], layers: int, hidden: int, heads: int, context: int
) -> None:
    source = resolve(_written(tmp_path, config), random_weights=True)
    spec = model_spec(source.config)
    assert (len(spec.layers), spec.hidden_size, spec.layers[0].heads, spec.context) == (layers, hidden, heads, context)


@pytest.mark.parametrize("infinite", [math.inf, {"__float__": "Infinity"}], ids=["Python's", "transformers' tag"])
def test_an_infinite_number_is_data(tmp_path: Path, infinite: object) -> None:
    config = {**LLAMA, "time_step_limit": [0.0, infinite], "rope_theta": 1e4}
    source = resolve(_written(tmp_path, config), random_weights=True)
    assert source.hf_config.time_step_limit == [0.0, math.inf]
    assert source.config["time_step_limit"] == [0.0, {"__float__": "Infinity"}]
    assert len(stage_key({"config": source.config})) == 64


def test_attention_code_of_its_own_is_kept(tmp_path: Path) -> None:
    """Falcon chooses among attention classes of its own, none of them edgec's: capture recognises what they write."""
    falcon = {**LLAMA, "model_type": "falcon", "architectures": ["FalconForCausalLM"]}
    source = resolve(_written(tmp_path, falcon), random_weights=True)
    attention.register()
    built = source.build_on("meta", attn_implementation=attention.NAME)
    assert built.config._attn_implementation in ("sdpa", "eager")


def test_a_recurrent_model_is_no_decoder_of_attention_layers() -> None:
    with pytest.raises(InputError, match="no num_attention_heads") as caught:
        model_spec({"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 128})
    assert caught.value.code == "E109"


@pytest.mark.parametrize(
    "changes",
    [
        {"architectures": 7},
        {"architectures": [None]},
        {"text_config": "text"},
        {"num_hidden_layers": 10**30},
        {"n_layer": 10**9},
        {"vision_config": {"num_layers": 10**9}},
        {"num_attention_heads": 0},
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_is_named(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        resolve(str(write_config(tmp_path / "m", changes)), random_weights=True)
    assert caught.value.code == "E111" and next(iter(changes)).split("_config")[0] in f"{caught.value.why} vision"
