"""Tiny GGUF files of every architecture, written with the gguf package from random models of transformers.

Everything that llama.cpp's converter does to a model is done here once more, apart from the reader: rows of queries and
keys in pairs, norms with one added, gates and ups of experts apart, filters without their dimension of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
COMMON: Mapping[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}


@dataclass(frozen=True)
class Family:
    """An architecture of llama.cpp, a model type of transformers and what makes a tiny model of it."""

    architecture: str
    model_type: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    describe: Callable[[gguf.GGUFWriter, Any], None] = lambda writer, config: None
    pairs: bool = False
    ones: bool = False


def _window(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_sliding_window(config.sliding_window)


def _gemma2(writer: gguf.GGUFWriter, config: Any) -> None:
    _window(writer, config)
    writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)


def _gemma3(writer: gguf.GGUFWriter, config: Any) -> None:
    _window(writer, config)
    writer.add_sliding_window_pattern(3)
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(4.0)


def _experts(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def _long(writer: gguf.GGUFWriter, config: Any) -> None:
    _window(writer, config)
    writer.add_rope_dimension_count(16)
    writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)
    for name in ("long", "short"):
        factors = np.array(config.rope_parameters[f"{name}_factor"], np.float32)
        writer.add_tensor(f"rope_factors_{name}.weight", factors)


def _llama3(writer: gguf.GGUFWriter, config: Any) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, config.head_dim, 2) / config.head_dim)
    writer.add_tensor("rope_freqs.weight", (plain / scaled).float().numpy())


def _yarn(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(4.0)
    writer.add_rope_scaling_orig_ctx_len(32)


def _convolutions(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_shortconv_l_cache(config.conv_L_cache)


_GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
_GEMMA3_LAYERS = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
_PHI3_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "partial_rotary_factor": 0.5,
    "long_factor": [1.0 + 0.5 * i for i in range(8)],
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
}
_MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True}
_LLAMA3_ROPE = {
    **{"rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 8192,
}
_YARN_ROPE = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32}
FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama", "llama", pairs=True),
    "llama, tied": Family("llama", "llama", {"tie_word_embeddings": True}, pairs=True),
    "llama with biases": Family("llama", "llama", {"attention_bias": True, "mlp_bias": True}, pairs=True),
    "llama 3.2": Family("llama", "llama", {"rope_parameters": _LLAMA3_ROPE}, _llama3, pairs=True),
    "mistral": Family("llama", "mistral", {"sliding_window": None}, pairs=True),
    "qwen2": Family("qwen2", "qwen2", {"head_dim": None}),
    "qwen2, yarn": Family("qwen2", "qwen2", {"head_dim": None, "rope_parameters": _YARN_ROPE}, _yarn),
    "qwen3": Family("qwen3", "qwen3"),
    "qwen3moe": Family("qwen3moe", "qwen3_moe", _MOE, _experts),
    "gemma2": Family(
        "gemma2",
        "gemma2",
        {"sliding_window": 8, "tie_word_embeddings": True, "query_pre_attn_scalar": 32},
        _gemma2,
        ones=True,
    ),
    "gemma3": Family(
        "gemma3",
        "gemma3_text",
        {
            **{"sliding_window": 8, "tie_word_embeddings": True, "layer_types": _GEMMA3_LAYERS},
            "query_pre_attn_scalar": 32,
            "rope_parameters": _GEMMA3_ROPE,
        },
        _gemma3,
        ones=True,
    ),
    "phi3": Family("phi3", "phi3", {"head_dim": None, "sliding_window": 8}, _window),
    "phi3, long": Family(
        "phi3",
        "phi3",
        {
            **{"head_dim": None, "sliding_window": 64, "rope_parameters": _PHI3_ROPE, "hidden_size": 128},
            "original_max_position_embeddings": 16,
        },
        _long,
    ),
    "smollm3": Family("smollm3", "smollm3", {"head_dim": None, "use_sliding_window": False}, pairs=True),
    "lfm2": Family(
        "lfm2",
        "lfm2",
        {
            **{"layer_types": ["conv", "full_attention", "conv", "full_attention"], "head_dim": None},
            **{"block_auto_adjust_ff_dim": False, "conv_L_cache": 3, "norm_eps": 1e-5},
        },
        _convolutions,
    ),
}


def tiny_model(family: Family) -> Any:
    """A random model in float32 whose norms are not ones."""
    from transformers import AutoConfig, AutoModelForCausalLM

    given = {key: value for key, value in {**COMMON, **family.changes}.items() if value is not None or "token" in key}
    config = AutoConfig.for_model(family.model_type, **given)
    # Scores as large as a trained model's: a wrong order of rows must show.
    config.initializer_range = 0.2
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    for name, value in model.named_parameters():
        if value.dim() == 1:
            value.data = torch.rand_like(value) + (0.5 if name.endswith("weight") else -0.5)
    return model


def write_model(file: Path, family: Family, model: Any, quantised: str = "F32") -> Path:
    """Write a model as llama.cpp's converter would; matrices in another type where asked."""
    writer = model_writer(file, family, model, quantised)
    family.describe(writer, model.config)
    return finish(writer, file)


def finish(writer: gguf.GGUFWriter, file: Path) -> Path:
    """Write all that a writer was told."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def model_writer(file: Path, family: Family, model: Any, quantised: str = "F32", **options: Any) -> gguf.GGUFWriter:
    """A writer that knows every decoder's metadata and all tensors."""
    config, writer = model.config, gguf.GGUFWriter(file, family.architecture, **options)
    heads = config.num_key_value_heads
    kinds = getattr(config, "layer_types", None) or []
    base = config.rope_parameters.get("full_attention", config.rope_parameters)["rope_theta"]
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([0 if kind == "conv" else heads for kind in kinds] if "conv" in kinds else heads)
    writer.add_layer_norm_rms_eps(getattr(config, "norm_eps", None) or config.rms_norm_eps)
    writer.add_rope_freq_base(base)
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    for name, values in stored_tensors(family, model):
        _add(writer, name, values, quantised)
    return writer


def _add(writer: gguf.GGUFWriter, name: str, values: Array, quantised: str) -> None:
    kind = gguf.GGMLQuantizationType[quantised]
    if quantised == "F32" or values.ndim < 2 or values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
        writer.add_tensor(name, values)
    else:
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)


def stored_tensors(family: Family, model: Any) -> Iterator[tuple[str, Array]]:
    """Every tensor under its name in the file, in the form that it has there."""
    codes = {name: code for code, name in gguf.MODEL_ARCH_NAMES.items()}
    table = gguf.get_tensor_name_map(codes[family.architecture], model.config.num_hidden_layers)
    for key, value in model.state_dict().items():
        if key == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        values = value.numpy()
        if key.endswith("experts.gate_up_proj"):
            layer = key.split(".")[2]
            for part, half in zip(("gate", "up"), np.split(values, 2, axis=1), strict=True):
                yield f"blk.{layer}.ffn_{part}_exps.weight", np.ascontiguousarray(half)
            continue
        name = table.get_name(key, try_suffixes=(".weight", ".bias"))
        assert name is not None, key
        name = name if name.endswith((".weight", ".bias")) else f"{name}.weight"
        yield name, _as_stored(family, model.config, name, values)


def _as_stored(family: Family, config: Any, name: str, values: Array) -> Array:
    if family.ones and name.endswith("norm.weight"):
        return values + 1
    if name.endswith("shortconv.conv.weight"):
        return values.squeeze(1)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2])
    if not family.pairs or heads is None:
        return values
    halves = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
