"""A config of experts, recurrent states or windows that contradicts its weights or itself is refused untraced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.coverage_parts.tiny import tiny_config, tiny_model
from edgec.errors import InputError
from edgec.exporter.sources.decoders.expert_counts import routing_fault
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.resolve import resolve

CASES: tuple[tuple[str, str, Mapping[str, Any], str], ...] = (
    ("E106", "qwen3_moe", {"num_local_experts": 3}, "mlp.experts"),
    ("E106", "qwen3_moe", {"moe_intermediate_size": 48}, "gate_up_proj"),
    ("E106", "lfm2", {"conv_L_cache": 7}, "conv.conv.weight"),
    ("E106", "mamba2", {"state_size": 8}, "conv1d.weight"),
    ("E106", "qwen3_next", {"linear_num_value_heads": 8}, "dt_bias"),
    ("E111", "qwen3_moe", {"num_experts_per_tok": 99}, "num_experts_per_tok is 99, and a layer has 8 experts"),
    ("E111", "qwen3_moe", {"num_experts_per_tok": 0}, "num_experts_per_tok is 0"),
    ("E111", "lfm2", {"layer_types": ["conv", "nonsense"] * 2}, "layer_types"),
    ("E111", "lfm2", {"layer_types": ["conv"]}, "layer_types"),
    ("E111", "mamba2", {"num_heads": 3}, "Inconsistent"),
    ("E111", "gemma3_text", {"sliding_window": -4}, "sliding_window is -4"),
    ("E111", "gemma3_text", {"sliding_window": 0}, "sliding_window is 0"),
)


@cache
def _tiny(kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    model = tiny_model(tiny_config(kind))
    names = {value.data_ptr(): name for name, value in reversed(model.state_dict().items())}
    return json.loads(model.config.to_json_string(use_diff=False)), {
        name: value.contiguous() for name, value in model.state_dict().items() if names[value.data_ptr()] == name
    }


@pytest.mark.parametrize(("code", "kind", "change", "said"), CASES, ids=lambda value: str(value)[:40])
def test_a_contradiction_is_refused_before_anything_is_traced(
    code: str, kind: str, change: Mapping[str, Any], said: str, tmp_path: Path
) -> None:
    config, weights = _tiny(kind)
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(InputError) as refused:
        model_spec(resolve(str(tmp_path)).config)
    assert refused.value.code == code
    assert said in str(refused.value.why)


@pytest.mark.parametrize(
    ("counts", "fault"),
    [
        ({"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2}, ""),
        ({"n_routed_experts": 8, "num_experts_per_tok": 8, "n_group": None, "topk_group": None}, ""),
        ({"num_experts_per_tok": 9}, ""),
        ({"n_routed_experts": 8, "n_group": 3}, "n_group is 3, which does not divide 8 experts"),
        ({"n_routed_experts": 8, "n_group": 0}, "n_group is 0, which does not divide 8 experts"),
        ({"n_routed_experts": 8, "n_group": 2, "topk_group": 5}, "topk_group is 5, and there are 2 groups of experts"),
        ({"moe_num_experts": 4, "moe_k": 5}, "moe_k is 5, and a layer has 4 experts"),
    ],
)
def test_what_a_router_cannot_do_with_its_counts(counts: Mapping[str, Any], fault: str) -> None:
    assert routing_fault(counts) == fault
