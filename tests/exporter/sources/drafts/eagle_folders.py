"""Tiny random EAGLE-3 folders, with tensors named as github.com/SafeAILab/EAGLE saves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

WIDTH, HEADS, KV_HEADS, HEAD, INNER = 32, 4, 2, 16, 48


def eagle_tensors(vocabulary: int, reduced: int) -> dict[str, Tensor]:
    """Seeded tensors; the reduced vocabulary is spread over the whole one, out of order."""
    generator = torch.Generator().manual_seed(6)
    shapes = {
        "fc.weight": (WIDTH, 3 * WIDTH),
        "midlayer.self_attn.q_proj.weight": (HEADS * HEAD, 2 * WIDTH),
        "midlayer.self_attn.k_proj.weight": (KV_HEADS * HEAD, 2 * WIDTH),
        "midlayer.self_attn.v_proj.weight": (KV_HEADS * HEAD, 2 * WIDTH),
        "midlayer.self_attn.o_proj.weight": (WIDTH, HEADS * HEAD),
        "midlayer.mlp.gate_proj.weight": (INNER, WIDTH),
        "midlayer.mlp.up_proj.weight": (INNER, WIDTH),
        "midlayer.mlp.down_proj.weight": (WIDTH, INNER),
        "lm_head.weight": (reduced, WIDTH),
    }
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm", "norm")
    tensors = {name: torch.randn(shape, generator=generator) * 0.2 for name, shape in shapes.items()}
    tensors |= {f"{name}.weight": 1 + 0.1 * torch.randn(WIDTH, generator=generator) for name in norms}
    tokens = torch.randperm(vocabulary, generator=generator)[:reduced]
    seen = torch.zeros(vocabulary, dtype=torch.bool)
    seen[tokens] = True
    return {**tensors, "d2t": tokens - torch.arange(reduced), "t2d": seen}


def write_eagle(folder: Path, tensors: dict[str, Tensor], vocabulary: int, **options: Any) -> Path:
    """Save a predictor and its config."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    sizes = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_attention_heads": HEADS, "head_dim": HEAD}
    counts = {"num_key_value_heads": KV_HEADS, "num_hidden_layers": 1, "vocab_size": vocabulary}
    named = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "rms_norm_eps": 1e-6}
    reduced = {"draft_vocab_size": len(tensors["d2t"]) if "d2t" in tensors else vocabulary}
    config = {**sizes, **counts, **named, **reduced, "rope_theta": 10000.0, **options}
    (folder / "config.json").write_text(json.dumps(config))
    return folder
