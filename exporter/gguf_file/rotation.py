"""Rotary frequencies as GGUF states them: base, kind of scaling, or a factor for each frequency in a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from edgec.exporter.sources.gguf.rotation import FACTORS, LONG, SHORT


def rope_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``rope_parameters`` of full attention."""
    stated: Mapping[str, Any] = config.get("rope_parameters") or {}
    result: Mapping[str, Any] = stated.get("full_attention", stated)
    return result


def rotated_values(config: Mapping[str, Any]) -> int:
    """How many values of a head are rotated."""
    share = rope_of(config).get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0
    return int(head_dim(config) * share)


def head_dim(config: Mapping[str, Any]) -> int:
    """Values in a head."""
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def describe_rotation(writer: Any, config: Mapping[str, Any]) -> None:
    """Tell a ``gguf.GGUFWriter`` base and scaling."""
    rope = rope_of(config)
    writer.add_rope_freq_base(float(rope.get("rope_theta", 10_000.0)))
    writer.add_rope_dimension_count(rotated_values(config))
    _DESCRIBED.get(rope.get("rope_type", "default"), _nothing)(writer, rope, config)


def rotation_tensors(config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The factors that stand in tensors, float32 [rotated values / 2], by the tensors' names."""
    rope = rope_of(config)
    kind = rope.get("rope_type", "default")
    if kind == "longrope":
        return {LONG: torch.tensor(rope["long_factor"]), SHORT: torch.tensor(rope["short_factor"])}
    return {FACTORS: _llama3_factors(rope, rotated_values(config))} if kind == "llama3" else {}


def _llama3_factors(rope: Mapping[str, Any], rotated: int) -> Tensor:
    """By how much each frequency is divided: long waves by the factor, short ones by 1, those between by a blend."""
    factor, low, high = (float(rope[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    exponents = torch.arange(0, rotated, 2, dtype=torch.float64) / rotated
    turns = rope["original_max_position_embeddings"] * rope["rope_theta"] ** -exponents / (2 * math.pi)
    smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    result: Tensor = (1.0 / ((1.0 - smooth) / factor + smooth)).float()
    return result


def _nothing(writer: Any, rope: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Nothing more: frequencies follow from the base, or stand in a tensor."""


def _linear(writer: Any, rope: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    from gguf import RopeScalingType

    writer.add_rope_scaling_type(RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(float(rope["factor"]))


def _yarn(writer: Any, rope: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    from gguf import RopeScalingType

    writer.add_rope_scaling_type(RopeScalingType.YARN)
    writer.add_rope_scaling_factor(float(rope["factor"]))
    writer.add_rope_scaling_orig_ctx_len(int(rope["original_max_position_embeddings"]))
    writer.add_rope_scaling_yarn_beta_fast(float(rope.get("beta_fast") or 32.0))
    writer.add_rope_scaling_yarn_beta_slow(float(rope.get("beta_slow") or 1.0))


def _long(writer: Any, rope: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    original = rope.get("original_max_position_embeddings") or config["original_max_position_embeddings"]
    longer = config["max_position_embeddings"] / original
    scaled = math.sqrt(1 + math.log(longer) / math.log(original)) if longer > 1 else 1.0
    writer.add_rope_scaling_orig_ctx_len(int(original))
    writer.add_rope_scaling_attn_factors(float(rope.get("attention_factor") or scaled))


_DESCRIBED: Mapping[str, Callable[[Any, Mapping[str, Any], Mapping[str, Any]], None]] = {
    "linear": _linear,
    "yarn": _yarn,
    "longrope": _long,
}
