"""Tiny random models of every family that capture must take, with what their attention layers should look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

COMMON: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING, FULL = "sliding_attention", "full_attention"


@dataclass(frozen=True)
class Family:
    """One tiny decoder.

    Attributes:
        name: transformers' ``model_type``.
        options: what its config says beyond COMMON.
        windows: per layer, the sliding window in tokens or None.
        donors: per layer, the layer whose keys and values it reads or None.
        kv_heads, head_dims: per layer.
        absent: those of COMMON's names that its config does not have.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    windows: tuple[int | None, ...] = (None, None, None)
    donors: tuple[int | None, ...] = (None, None, None)
    kv_heads: tuple[int, ...] = (2, 2, 2)
    head_dims: tuple[int, ...] = (16, 16, 16)
    absent: tuple[str, ...] = ()

    def config(self) -> Any:
        """The transformers config."""
        from transformers import AutoConfig

        common = {name: value for name, value in COMMON.items() if name not in self.absent}
        return AutoConfig.for_model(self.name, **{**common, **self.options})


def _layered(*kinds: str, **options: Any) -> dict[str, Any]:
    return {"layer_types": list(kinds), "num_hidden_layers": len(kinds), "sliding_window": 8, **options}


GEMMA_KINDS = (SLIDING, FULL, SLIDING, FULL)
FAMILIES = (
    Family("llama", {"tie_word_embeddings": True}),
    Family("qwen2", {"use_sliding_window": False}),
    Family("qwen3", {"tie_word_embeddings": True}),
    Family(
        "gemma2",
        _layered(SLIDING, FULL, SLIDING, query_pre_attn_scalar=16, attn_logit_softcapping=2.0),
        windows=(8, None, 8),
    ),
    Family(
        "gemma3_text",
        _layered(SLIDING, SLIDING, FULL, query_pre_attn_scalar=16, final_logit_softcapping=30.0),
        windows=(8, 8, None),
    ),
    Family("mistral", {"sliding_window": 8}, windows=(8, 8, 8)),
    Family("phi3", {}),
    Family("smollm3", {"no_rope_layers": [1, 0, 1], "use_sliding_window": False}),
    Family(
        "gemma3n_text",
        _layered(
            *GEMMA_KINDS,
            num_kv_shared_layers=2,
            vocab_size_per_layer_input=128,
            hidden_size_per_layer_input=16,
            laurel_rank=8,
            altup_num_inputs=2,
            activation_sparsity_pattern=[0.0] * 4,
            intermediate_size=[96] * 4,
        ),
        windows=(8, None, 8, None),
        donors=(None, None, 0, 1),
        kv_heads=(2,) * 4,
        head_dims=(16,) * 4,
    ),
    Family(
        "gemma4_text",
        _layered(
            *GEMMA_KINDS,
            num_kv_shared_layers=2,
            global_head_dim=32,
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            vocab_size_per_layer_input=128,
            hidden_size_per_layer_input=16,
        ),
        windows=(8, None, 8, None),
        donors=(None, None, 0, 1),
        kv_heads=(2, 1, 2, 1),
        head_dims=(16, 32, 16, 32),
    ),
)


def build(family: Family, attention: str, seed: int = 0) -> nn.Module:
    """The family's model with seeded random weights, spread enough for logits to differ between tokens."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model: nn.Module = AutoModelForCausalLM.from_config(family.config(), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, parameter.shape[-1] ** -0.5)
    return model.eval()


def save(family: Family, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write the model as a checkpoint folder (config.json, model.safetensors) and return the folder."""
    model: Any = build(family, "eager").to(dtype)
    model.save_pretrained(folder)
    return folder


@dataclass(frozen=True)
class StoredWeights:
    """The tensors of one safetensors file, memory-mapped."""

    path: Path

    def tensor(self, name: str) -> Tensor:
        from safetensors import safe_open

        with safe_open(self.path, "pt") as file:
            value: Tensor = file.get_tensor(name)
        return value


def stored(folder: Path) -> StoredWeights:
    """The weights of a folder written by ``save``."""
    return StoredWeights(folder / "model.safetensors")


def empty_model(config: Any) -> Callable[[], nn.Module]:
    """What ``skeleton`` calls: the architecture with edgec's attention and experts."""
    from transformers import AutoModelForCausalLM

    seams = {"attn_implementation": "edgec", "experts_implementation": "edgec"}
    return lambda: AutoModelForCausalLM.from_config(config, **seams)
