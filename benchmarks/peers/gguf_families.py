"""What GGUF asks of each family of models: tensors in llama.cpp's form, and metadata of its own.

Runs in the peers' environment. A family's ``forms`` turns a tensor of transformers into those that llama.cpp reads,
under names that gguf's own table maps; ``describe`` writes the metadata beyond that of any decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

Config = Mapping[str, Any]
Tensor = NDArray[Any]
Forms = Callable[[Config, str, Tensor], Iterator[tuple[str, Tensor]]]
Describe = Callable[[gguf.GGUFWriter, Config], None]


def _as_it_is(config: Config, key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield key, tensor


def _neighbours(config: Config, key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Rotary embeddings pair neighbours, not halves: rows of each head are reordered, as llama.cpp's converter does."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(key.split(".")[-2])
    if heads is None:
        yield key, tensor
    else:
        rows, columns = tensor.shape
        halves = tensor.reshape(heads, 2, rows // heads // 2, columns)
        yield key, halves.swapaxes(1, 2).reshape(rows, columns)


def _recurrent(config: Config, key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Tensors of Gated DeltaNet and its model's norms, which scale by 1 + w."""
    if key.endswith(".A_log"):
        yield key, -np.exp(tensor.astype(np.float32))
    elif key.endswith(".dt_bias"):
        yield key.removesuffix(".dt_bias") + ".dt_proj.bias", tensor
    elif key.endswith("conv1d.weight"):
        yield key, tensor.squeeze(1)
    else:
        plain = not key.endswith("norm.weight") or key.endswith("linear_attn.norm.weight")
        yield key, tensor if plain else tensor.astype(np.float32) + 1.0


def _convolved(config: Config, key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """A short convolution's filters [channels, 1, taps] without the dimension of 1."""
    yield key, tensor.squeeze(1) if key.endswith("conv.conv.weight") else tensor


def _halved_experts(config: Config, key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Experts whose gate and up lie one after the other in [experts, 2 * width, hidden]."""
    place, _, last = key.rpartition(".")
    if last == "gate_up_proj":
        for name, half in zip(("gate_proj", "up_proj"), np.split(tensor, 2, axis=1), strict=True):
            yield f"{place}.{name}.weight", half
    else:
        yield f"{key}.weight" if last == "down_proj" else key, tensor


def _woven_experts(config: Config, key: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Transposed experts whose columns are gate and up in turn, with biases; attention has sink logits."""
    place, _, last = key.rpartition(".")
    name, kind = (last.removesuffix("_bias"), "bias") if last.endswith("_bias") else (last, "weight")
    if name == "sinks":
        yield f"{key}.weight", tensor
    elif name not in ("gate_up_proj", "down_proj"):
        yield key, tensor
    else:
        rows = tensor if kind == "bias" else tensor.swapaxes(1, 2)
        parts = {"gate_proj": rows[:, ::2], "up_proj": rows[:, 1::2]} if name == "gate_up_proj" else {name: rows}
        for part, values in parts.items():
            yield f"{place}.{part}.{kind}", values


def _nothing_more(writer: gguf.GGUFWriter, config: Config) -> None:
    """The metadata of any decoder says it all."""


def _recurrences(writer: gguf.GGUFWriter, config: Config) -> None:
    """The shape of Gated DeltaNet layers, under the names of state-space models."""
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
    writer.add_full_attention_interval(config["full_attention_interval"])
    # Positions of text are the same in all sections, which only images tell apart.
    writer.add_rope_dimension_sections([11, 11, 10, 0])


def _convolutions(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_shortconv_l_cache(config["conv_L_cache"])


def _experts(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_expert_count(config.get("num_experts") or config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_feed_forward_length(config.get("moe_intermediate_size") or config["intermediate_size"])


def _experts_in_windows(writer: gguf.GGUFWriter, config: Config) -> None:
    _experts(writer, config)
    # llama.cpp knows which layers see a window: every second one, from the first on.
    writer.add_sliding_window(config["sliding_window"])


@dataclass(frozen=True)
class GgufFamily:
    """A family of models: llama.cpp's architecture, its tensors' forms and its own metadata."""

    architecture: Any
    forms: Forms = _as_it_is
    describe: Describe = _nothing_more


GGUF_FAMILIES = {
    "llama": GgufFamily(gguf.MODEL_ARCH.LLAMA, _neighbours),
    "mistral": GgufFamily(gguf.MODEL_ARCH.LLAMA, _neighbours),
    "qwen3": GgufFamily(gguf.MODEL_ARCH.QWEN3),
    "qwen3_5_text": GgufFamily(gguf.MODEL_ARCH.QWEN35, _recurrent, _recurrences),
    "lfm2": GgufFamily(gguf.MODEL_ARCH.LFM2, _convolved, _convolutions),
    "qwen3_moe": GgufFamily(gguf.MODEL_ARCH.QWEN3MOE, _halved_experts, _experts),
    "gpt_oss": GgufFamily(gguf.MODEL_ARCH.GPT_OSS, _woven_experts, _experts_in_windows),
}
"""By transformers' ``model_type``."""


def kv_heads(config: Config) -> int | list[int]:
    """The heads of keys and values; of each layer where some have none, which is how llama.cpp knows convolutions."""
    heads, layers = int(config["num_key_value_heads"]), range(int(config["num_hidden_layers"]))
    if "conv_L_cache" not in config:
        return heads
    kinds = config.get("layer_types")
    attends = [kinds[i] != "conv" if kinds else i in config["full_attn_idxs"] for i in layers]
    return [heads if attending else 0 for attending in attends]
