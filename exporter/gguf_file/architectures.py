"""How the metadata of each architecture is written: the way back of ``exporter/sources/gguf/architectures.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgec.errors import InputError
from edgec.exporter.gguf_file.rotation import describe_rotation, head_dim
from edgec.exporter.sources.gguf.architectures import ARCHITECTURES

# llama.cpp has one name for both.
_MISTRAL = {"mistral": "llama"}
NAMES: Mapping[str, str] = {**{known.model_type: name for name, known in ARCHITECTURES.items()}, **_MISTRAL}
"""llama.cpp's name of an architecture, by the model type of transformers."""
_FULL, _CONVOLUTION = "full_attention", "conv"


def architecture_name(config: Mapping[str, Any]) -> str:
    """llama.cpp's name of a model's architecture.

    Raises:
        InputError: E825, edgec writes no such model as GGUF.
    """
    kind = str(config.get("model_type"))
    if kind not in NAMES:
        raise unwritten(kind, f"the model type {kind!r} has no architecture of GGUF that edgec knows")
    return NAMES[kind]


def unwritten(where: str, why: str) -> InputError:
    """The refusal of a model that GGUF, as edgec reads it, would describe otherwise."""
    return InputError(
        what="This model cannot be written as GGUF.",
        where=where,
        why=why,
        fix=f"leave --format gguf out; written are models of the types {', '.join(NAMES)}, as llama.cpp computes them",
        code="E825",
    )


def describe_architecture(writer: Any, config: Mapping[str, Any], feed_forward: int) -> None:
    """Tell a ``gguf.GGUFWriter`` a decoder's shape.

    Args:
        writer: of the architecture.
        config: of transformers, with values under their common names.
        feed_forward: the width between a layer's two matrices.
    """
    writer.add_context_length(int(config["max_position_embeddings"]))
    writer.add_embedding_length(int(config["hidden_size"]))
    writer.add_block_count(int(config["num_hidden_layers"]))
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(int(config["num_attention_heads"]))
    writer.add_head_count_kv(_key_heads(config))
    writer.add_key_length(head_dim(config))
    writer.add_value_length(head_dim(config))
    writer.add_layer_norm_rms_eps(float(config.get("norm_eps") or config["rms_norm_eps"]))
    writer.add_vocab_size(int(config["vocab_size"]))
    describe_rotation(writer, config)
    _MORE.get(NAMES[config["model_type"]], _nothing)(writer, config)


def _key_heads(config: Mapping[str, Any]) -> int | list[int]:
    """Heads of keys and values; 0 for layers that are convolutions."""
    heads, kinds = int(config["num_key_value_heads"]), config.get("layer_types") or []
    return [0 if kind == _CONVOLUTION else heads for kind in kinds] if _CONVOLUTION in kinds else heads


def _nothing(writer: Any, config: Mapping[str, Any]) -> None:
    """Nothing more."""


def _window(writer: Any, config: Mapping[str, Any]) -> None:
    if config.get("sliding_window"):
        writer.add_sliding_window(int(config["sliding_window"]))


def _gemma2(writer: Any, config: Mapping[str, Any]) -> None:
    _window(writer, config)
    if config.get("attn_logit_softcapping"):
        writer.add_attn_logit_softcapping(float(config["attn_logit_softcapping"]))
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(float(config["final_logit_softcapping"]))


def _gemma3(writer: Any, config: Mapping[str, Any]) -> None:
    _gemma2(writer, config)
    kinds = [*config["layer_types"], _FULL]
    writer.add_sliding_window_pattern(kinds.index(_FULL) + 1)
    writer.add_rope_freq_base_swa(float(config["rope_parameters"]["sliding_attention"]["rope_theta"]))


def _experts(writer: Any, config: Mapping[str, Any]) -> None:
    writer.add_expert_count(int(config["num_experts"]))
    writer.add_expert_used_count(int(config["num_experts_per_tok"]))
    writer.add_expert_feed_forward_length(int(config["moe_intermediate_size"]))


def _convolutions(writer: Any, config: Mapping[str, Any]) -> None:
    writer.add_shortconv_l_cache(int(config["conv_L_cache"]))


_MORE: Mapping[str, Callable[[Any, Mapping[str, Any]], None]] = {
    **{"gemma2": _gemma2, "gemma3": _gemma3, "phi3": _window},
    **{"qwen3moe": _experts, "lfm2": _convolutions},
}
