"""Tiny random models with a multi-token predictor in their checkpoint, under the names that families publish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

LAYERS, WIDTH, VOCAB, CONTEXT = 3, 32, 96, 64
_SHAPE = {"hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": LAYERS, "vocab_size": VOCAB}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": CONTEXT}
_PLAIN = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.15}
_EXPERTS = {
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1},
    **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1},
}
_LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16}
FAMILIES: dict[str, dict[str, Any]] = {
    # No such checkpoints exist; the names do not depend on the layers beside them, and these are the fastest.
    "qwen3": {"num_nextn_predict_layers": 1},
    "qwen3_5_text": {
        "layer_types": ["linear_attention", "full_attention", "linear_attention"],
        **{"linear_num_key_heads": 2, "linear_num_value_heads": 4},
        **{"linear_key_head_dim": 16, "linear_value_head_dim": 24},
    },
    "glm4_moe": {**_EXPERTS, "use_qk_norm": True},
    "deepseek_v3": {**_EXPERTS, **_LATENT, "num_key_value_heads": 4, "head_dim": 8},
}


def write_mtp(folder: Path, family: str, **options: Any) -> Path:
    """Save a model of random weights with a predictor, as its publisher names the tensors."""
    config = AutoConfig.for_model(family, **{**_SHAPE, **_HEADS, **_PLAIN, **FAMILIES[family], **options})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    state = load_file(file)
    generator = torch.Generator().manual_seed(4)
    state |= {
        name: _drawn(value, generator) for name, value in _further(state, family, config.num_hidden_layers).items()
    }
    save_file({name: value.contiguous() for name, value in state.items()}, file, {"format": "pt"})
    return folder


def _drawn(like: Tensor, generator: torch.Generator) -> Tensor:
    """Vectors near those of the model (norms), matrices as wide as its own."""
    spread = 0.1 if like.dim() < 2 else 0.2
    drawn = torch.randn(like.shape, generator=generator) * spread
    return drawn + like if like.dim() < 2 else drawn


def _further(state: dict[str, Tensor], family: str, layers: int) -> dict[str, Tensor]:
    """A predictor's tensors with the shapes, and its norms with the values, of the layer that they resemble."""
    joined, norm = torch.zeros(WIDTH, 2 * WIDTH), state["model.norm.weight"]
    alike = f"model.layers.{1 if family == 'qwen3_5_text' else layers - 1}."
    layer = {name.removeprefix(alike): value for name, value in state.items() if name.startswith(alike)}
    if family == "qwen3_5_text":
        own = {"pre_fc_norm_embedding.weight": norm, "pre_fc_norm_hidden.weight": norm, "norm.weight": norm}
        named = {**own, "fc.weight": joined, **{f"layers.0.{name}": value for name, value in layer.items()}}
        return {f"mtp.{name}": value for name, value in named.items()}
    own = {"enorm.weight": norm, "hnorm.weight": norm, "shared_head.norm.weight": norm, "eh_proj.weight": joined}
    copies = {
        "embed_tokens.weight": state["model.embed_tokens.weight"],
        "shared_head.head.weight": state["lm_head.weight"],
    }
    return {f"model.layers.{layers}.{name}": value for name, value in {**own, **copies, **layer}.items()}
