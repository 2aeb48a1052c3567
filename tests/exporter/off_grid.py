"""A trained chat model in float32 whose weights lie on no quantisation grid, made of the published one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.tokenizer import load_tokenizer
from edgec.exporter.stages.capturing import eager_model, stream_weights
from edgec.ir.row_tensor import fill_floats

FACTORS = 0.8, 1.25


@torch.no_grad()
def off_grid_folder(published: Path, folder: Path) -> Path:
    """Write a Llama-like model that computes the same as ``published`` as transformers saves it.

    Published weights are integers of a few bits, which would be kept: every column of a layer is multiplied by a factor
    of its own, and the norm or the layer before it divided by it.
    """
    source = resolve(str(published))
    model: Any = eager_model(source, stream_weights(source))
    fill_floats(model)
    generator = torch.Generator().manual_seed(0)
    for layer in model.model.layers:
        attention, inner = layer.self_attn, layer.mlp
        for norm, readers in (
            (layer.input_layernorm, (attention.q_proj, attention.k_proj, attention.v_proj)),
            (layer.post_attention_layernorm, (inner.gate_proj, inner.up_proj)),
        ):
            factors = _factors(len(norm.weight), generator)
            norm.weight /= factors
            for reader in readers:
                reader.weight *= factors
        factors = _factors(inner.up_proj.out_features, generator)
        inner.up_proj.weight *= factors[:, None]
        inner.down_proj.weight /= factors
    model.float().save_pretrained(folder)
    assert source.path is not None
    load_tokenizer(source.path).save_pretrained(folder)
    return folder


def _factors(count: int, generator: torch.Generator) -> Tensor:
    low, high = FACTORS
    return low + (high - low) * torch.rand(count, generator=generator)
