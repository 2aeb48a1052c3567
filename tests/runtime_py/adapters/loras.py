"""Folders as PEFT saves them, and the tiny Llama with 4-bit weights in torch, with or without low-rank changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchao.quantization.quant_primitives  # noqa: F401  (registers torch.ops.torchao)
from safetensors.torch import save_file
from torch import Tensor, nn

import edgec
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.rounding.weight_grid import quantize_weight

# 4-bit rounding alone flips tokens of random weights: how good the model is does not matter here.
RECIPE = """
algorithm = "rtn"

[weights]
bits = 4
group_size = 32
scale_bits = 16

[lm_head]
bits = 8
group_size = 0

[cache]
dtype = "float32"

[limits]
context = 128
prefill_chunk = 32
logit_rows = 16

[budgets]
kl_mean = 5.0
top1_agreement = 0.0
"""
ATTENTION = ("self_attn.q_proj", "self_attn.v_proj")
EVERY = (*ATTENTION, "self_attn.k_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
PLAIN: Mapping[str, Any] = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "tiny-llama",
    "bias": "none",
    "fan_in_fan_out": False,
    "init_lora_weights": True,
    "lora_alpha": 16,
    "lora_dropout": 0.05,
    "modules_to_save": None,
    "r": 4,
    "use_dora": False,
    "use_rslora": False,
    "rank_pattern": {},
    "alpha_pattern": {},
    "loftq_config": {},
    "megatron_core": "megatron.core",
    "target_modules": ["q_proj", "v_proj"],
}
SIZES = {"q_proj": (32, 32), "k_proj": (16, 32), "v_proj": (16, 32), "o_proj": (32, 32)}
SIZES |= {"gate_proj": (64, 32), "up_proj": (64, 32), "down_proj": (32, 64)}
Pairs = dict[str, tuple[Tensor, Tensor]]


def pairs(modules: Sequence[str] = ATTENTION, rank: int = 4, seed: int = 0, layers: int = 2) -> Pairs:
    """Random A [rank, width] and B [rows, rank] by module, large enough that answers change."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for name in (f"model.layers.{layer}.{module}" for layer in range(layers) for module in modules):
        rows, width = SIZES[name.rpartition(".")[2]]
        a, b = torch.randn(rank, width, generator=generator), torch.randn(rows, rank, generator=generator)
        made[name] = (a * 0.3, b * 0.3)
    return made


def write_lora(folder: Path, changes: Pairs, more: Mapping[str, Tensor] | None = None, **config: Any) -> Path:
    """A folder as ``save_pretrained`` writes it."""
    folder.mkdir(parents=True)
    tensors = {f"base_model.model.{name}.lora_A.weight": a for name, (a, _) in changes.items()}
    tensors |= {f"base_model.model.{name}.lora_B.weight": b for name, (_, b) in changes.items()}
    save_file({**tensors, **(more or {})}, folder / "adapter_model.safetensors", {"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps({**PLAIN, **config}))
    return folder


class RoundedLinear(nn.Linear):
    """A linear layer over 4-bit or 8-bit weights that rounds its tokens to 8 bits, as edgec's kernels do."""

    def __init__(self, layer: nn.Linear, scheme: WeightScheme) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=False)
        weight = quantize_weight(layer.weight.detach(), scheme, "rtn").dequantize()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        block, bounds = [*(1 for _ in x.shape[:-1]), x.shape[-1]], (torch.int8, -128, 127)
        ops = torch.ops.torchao
        scale, zero = ops.choose_qparams_affine(x, "ASYMMETRIC", block, *bounds, None, None, torch.int8)
        whole = ops.quantize_affine(x, block, scale, zero, *bounds)
        return super().forward(ops.dequantize_affine(whole, block, scale, zero, *bounds))


def rounded_llama(folder: Path) -> Any:
    """The model of a folder in transformers, its matrices rounded as RECIPE says."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for name, layer in list(model.named_modules()):
        if isinstance(layer, nn.Linear):
            scheme = WeightScheme(8, 0) if name == "lm_head" else WeightScheme(4, 32, scale_bits=16)
            owner, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(owner), leaf, RoundedLinear(layer, scheme))
    return model


@contextmanager
def changed(model: Any, changes: Pairs, scale: float) -> Iterator[Any]:
    """The model with ``scale * B (A x)`` added to the outputs of its modules."""

    def hook(a: Tensor, b: Tensor) -> Any:
        return lambda module, inputs, output: output + scale * (inputs[0] @ a.T) @ b.T

    handles = [model.get_submodule(name).register_forward_hook(hook(a, b)) for name, (a, b) in changes.items()]
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()


def logits_of(model: Any, tokens: Sequence[int]) -> Tensor:
    """Float32 [S, vocabulary]."""
    with torch.no_grad():
        logits: Tensor = model(torch.tensor([list(tokens)])).logits[0]
    return logits


def session_logits(session: Any, tokens: Sequence[int], at_once: int = 16) -> Tensor:
    """The logits of every position from an empty KV cache, ``at_once`` tokens a call."""
    rows = []
    for start in range(0, len(tokens), at_once):
        part = tokens[start : start + at_once]
        rows.append(session.forward(part, start, range(len(part))).copy())
    return torch.from_numpy(np.concatenate(rows))


def exported(model: Path, folder: Path, recipe: str) -> Path:
    """The bundle of a model with a recipe of its own."""
    file = folder / "own.toml"
    file.write_text(recipe)
    return edgec.export(model, target="host", recipe=str(file), out=folder / "tiny.edgec", force=True)
