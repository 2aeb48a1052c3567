"""The architectures of GGUF files that edgec reads, and the config of transformers that each means.

Names of metadata: gguf's ``constants.Keys``. What a file leaves out is what llama.cpp computes (its ``src/models``):
Gemma's layers alternate, SmolLM3's every fourth layer has no positions, the weights of Qwen3's experts sum to one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.exporter.sources.gguf.metadata import Numbers

# The largest models, which scale their scores by hidden size over heads: layers of Gemma 2 27B and Gemma 3 27B.
_LARGEST_GEMMAS = (46, 62)
_CAPPINGS = ("attn_logit_softcapping", "final_logit_softcapping")
_GEMMA3_PATTERN, _GEMMA3_LOCAL_BASE = 6, 10_000.0
Config = Mapping[str, Any]


@dataclass(frozen=True)
class Architecture:
    """How one architecture of llama.cpp is read.

    Attributes:
        model_type: of transformers.
        causal_class: transformers' class that generates text.
        more: what the config has beyond every decoder's, from the metadata and the common entries.
        neighbours: rotary embeddings pair neighbouring rows of a query's or key's head in the file, and halves in
            transformers.
        centred_norms: norms are stored as the factor itself, and transformers' are what it exceeds one by.
    """

    model_type: str
    causal_class: str
    more: Callable[[Numbers, Config], dict[str, Any]]
    neighbours: bool = False
    centred_norms: bool = False


def _llama(numbers: Numbers, config: Config) -> dict[str, Any]:
    if numbers.file.metadata.get(f"{numbers.prefix}.expert_count"):
        raise numbers.fault("it has experts in the layers of a Llama (Mixtral), which edgec does not read from GGUF")
    tensors = numbers.file.tensors
    return {"attention_bias": "blk.0.attn_q.bias" in tensors, "mlp_bias": "blk.0.ffn_gate.bias" in tensors}


def _plain(numbers: Numbers, config: Config) -> dict[str, Any]:
    return {}


def _qwen3(numbers: Numbers, config: Config) -> dict[str, Any]:
    return {"attention_bias": "blk.0.attn_q.bias" in numbers.file.tensors}


def _qwen3_moe(numbers: Numbers, config: Config) -> dict[str, Any]:
    return {
        **_qwen3(numbers, config),
        "num_experts": numbers.count("expert_count"),
        "num_experts_per_tok": numbers.count("expert_used_count"),
        "moe_intermediate_size": numbers.count("expert_feed_forward_length"),
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _gemma(numbers: Numbers, config: Config) -> dict[str, Any]:
    large = config["num_hidden_layers"] in _LARGEST_GEMMAS
    scalar = config["hidden_size"] // config["num_attention_heads"] if large else config["head_dim"]
    return {
        "sliding_window": numbers.count("attention.sliding_window"),
        "query_pre_attn_scalar": scalar,
        "hidden_activation": "gelu_pytorch_tanh",
        **{name: numbers.real(name) if numbers.has(name) else None for name in _CAPPINGS},
    }


def _gemma3(numbers: Numbers, config: Config) -> dict[str, Any]:
    every = numbers.count("attention.sliding_window_pattern", _GEMMA3_PATTERN)
    layers = range(1, config["num_hidden_layers"] + 1)
    local = numbers.real("rope.freq_base_swa", _GEMMA3_LOCAL_BASE)
    return {
        **_gemma(numbers, config),
        "layer_types": ["sliding_attention" if layer % every else "full_attention" for layer in layers],
        "rope_parameters": {
            "full_attention": config["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
        },
    }


def _phi3(numbers: Numbers, config: Config) -> dict[str, Any]:
    window = numbers.file.metadata.get(f"{numbers.prefix}.attention.sliding_window")
    original = config["rope_parameters"].get("original_max_position_embeddings", config["max_position_embeddings"])
    return {
        "sliding_window": numbers.count("attention.sliding_window") if window else None,
        "original_max_position_embeddings": original,
    }


def _lfm2(numbers: Numbers, config: Config) -> dict[str, Any]:
    heads = numbers.per_layer("attention.head_count_kv", config["num_hidden_layers"])
    return {
        "norm_eps": config["rms_norm_eps"],
        "num_key_value_heads": max(heads),
        # Layers without heads of keys and values are convolutions.
        "layer_types": ["full_attention" if each else "conv" for each in heads],
        "conv_L_cache": numbers.count("shortconv.l_cache"),
        "conv_bias": any(name.endswith("shortconv.in_proj.bias") for name in numbers.file.tensors),
        # The width that is stated is the final one.
        "block_auto_adjust_ff_dim": False,
    }


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture("llama", "LlamaForCausalLM", _llama, neighbours=True),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", _plain),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", _qwen3),
    "qwen3moe": Architecture("qwen3_moe", "Qwen3MoeForCausalLM", _qwen3_moe),
    "gemma2": Architecture("gemma2", "Gemma2ForCausalLM", _gemma, centred_norms=True),
    "gemma3": Architecture("gemma3_text", "Gemma3ForCausalLM", _gemma3, centred_norms=True),
    "phi3": Architecture("phi3", "Phi3ForCausalLM", _phi3),
    "smollm3": Architecture("smollm3", "SmolLM3ForCausalLM", _plain, neighbours=True),
    "lfm2": Architecture("lfm2", "Lfm2ForCausalLM", _lfm2),
}
