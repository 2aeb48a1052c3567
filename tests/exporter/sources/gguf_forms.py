"""Tiny random Llamas in GGUF files whose matrices are of any types, with values of the size of a trained model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.exporter.sources.gguf_models import FAMILIES, Array, Family, finish, model_writer, tiny_model
from tests.exporter.sources.test_gguf_models import random_blocks

WIDE: Mapping[str, Any] = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64, "num_hidden_layers": 2}
TYPICAL = 0.06
"""Standard deviation of weights."""
# Where the float16 scales of a block lie, and its float16 minimums with their size in units of the scale.
_SCALES = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208, "TQ1_0": 52, "TQ2_0": 64}
_MINIMUMS = {"Q4_1": (2, -7.5), "Q5_1": (2, -15.5), "Q4_K": (2, 7.5), "Q5_K": (2, 15.5), "Q2_K": (82, 1.5)}
KindOf = Callable[[str], str]


def typical_blocks(kind: str, shape: tuple[int, ...]) -> Array:
    """Random bytes of a type [rows, bytes of a row], whose values are about TYPICAL large."""
    number = gguf.GGMLQuantizationType[kind]
    raw = random_blocks(kind, prod(shape[:-1]), shape[-1] // gguf.GGML_QUANT_SIZES[number][0])
    flat = raw.reshape(-1, gguf.GGML_QUANT_SIZES[number][1])
    if kind == "MXFP4":
        flat[:, 0] = 121 + flat[:, 0] % 3
        return raw
    _set_scales(flat, kind, 1.0)
    spread = float(np.std(gguf.dequantize(raw, number)))
    _set_scales(flat, kind, TYPICAL / spread)
    return raw


def _set_scales(blocks: Array, kind: str, size: float) -> None:
    dice = np.random.default_rng(1)
    scales = (size * dice.uniform(0.7, 1.4, (len(blocks), 1))).astype(np.float16)
    at = _SCALES.get(kind, 0)
    blocks[:, at : at + 2] = scales.view(np.uint8)
    if kind in _MINIMUMS:
        at, factor = _MINIMUMS[kind]
        blocks[:, at : at + 2] = (factor * scales.astype(np.float32)).astype(np.float16).view(np.uint8)


def write_forms(file: Path, kind_of: KindOf, changes: Mapping[str, Any] | None = None, family: str = "llama") -> Path:
    """Write a tiny model.

    Args:
        file: where to.
        kind_of: the type of a matrix by its name in the file; F32 keeps the model's random floats.
        changes: of its config.
        family: a key of ``FAMILIES``.
    """
    known = FAMILIES[family]
    made: Family = replace(known, changes={**WIDE, **known.changes, **(changes or {})})
    model = tiny_model(made)
    for value in model.parameters():
        if value.dim() > 1:
            value.data *= TYPICAL / 0.2
    writer = model_writer(file, made, model)
    made.describe(writer, model.config)
    tensors = writer.tensors[0]
    for name, tensor in tensors.items():
        if len(tensor.shape) < 2 or (kind := kind_of(name)) == "F32":
            continue
        raw, number = typical_blocks(kind, tuple(tensor.shape)), gguf.GGMLQuantizationType[kind]
        raw = raw.reshape(*tensor.shape[:-1], -1)
        tensors[name] = tensor.__class__(shape=tensor.shape, dtype=number, nbytes=raw.nbytes, tensor=raw)
    return finish(writer, file)


def q4_k_m(name: str) -> str:
    """The types of a Q4_K_M file: the table, values and downs in more bits."""
    return (
        "Q6_K" if name in ("token_embd.weight", "output.weight") or "attn_v" in name or "ffn_down" in name else "Q4_K"
    )
