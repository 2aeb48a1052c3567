"""Formats of quantised safetensors, with the settings of each and a writer of one matrix, at the nearest points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.exporter.sources.packed_writers import PartsOf, awq_parts, gptq_parts, packed_words, rounded

Written = tuple[dict[str, Tensor], Tensor]
_DOUBLED = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
_LARGEST_FP8, _LARGEST_FP4, _FP8_BLOCK, _BIAS = 448, 6.0, 128, 127


def _gptq(group: int, symmetric: bool, ordered: bool, name: str, weight: Tensor) -> Written:
    groups = np.arange(weight.shape[1]) // group
    order = np.random.default_rng(0).permutation(groups) if ordered else None
    made = rounded(weight, 4, group, symmetric, order)
    return gptq_parts(made), made.values


def _awq(name: str, weight: Tensor) -> Written:
    made = rounded(weight, 4, 128, False)
    return awq_parts(made), made.values


def _packed(name: str, weight: Tensor) -> Written:
    made = rounded(weight, 4, 32, True)
    shape = torch.tensor(made.codes.shape)
    parts = {"weight_packed": packed_words(made.codes, 4), "weight_shape": shape}
    return {**parts, "weight_scale": torch.from_numpy(made.scale.copy())}, made.values


def _int8(name: str, weight: Tensor) -> Written:
    scale = (weight.abs().amax(1, keepdim=True) / 127).bfloat16()
    codes = (weight / scale.float()).round().clamp(-128, 127).to(torch.int8)
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale.float()


def _fp8_channels(name: str, weight: Tensor) -> Written:
    scale = weight.abs().amax(1, keepdim=True) / _LARGEST_FP8
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale


def _fp8_blocks(name: str, weight: Tensor) -> Written:
    rows, width = weight.shape
    blocks = weight.reshape(rows // _FP8_BLOCK, _FP8_BLOCK, width // _FP8_BLOCK, _FP8_BLOCK)
    scale = blocks.abs().amax((1, 3)) / _LARGEST_FP8
    spread = scale.repeat_interleave(_FP8_BLOCK, 0).repeat_interleave(_FP8_BLOCK, 1)
    codes = (weight / spread).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale_inv": scale}, codes.float() * spread


def _mxfp4(name: str, weight: Tensor) -> Written:
    groups = weight.reshape(len(weight), -1, 32)
    power = torch.ceil(torch.log2(groups.abs().amax(2).clamp_min(2.0**-100) / _LARGEST_FP4))
    scaled = groups / torch.exp2(power)[..., None]
    codes = (scaled[..., None] - _DOUBLED).abs().argmin(-1)
    values = (_DOUBLED[codes] * torch.exp2(power)[..., None]).flatten(1)
    flat = codes.flatten(1)
    packed = (flat[:, ::2] | flat[:, 1::2] << 4).to(torch.uint8)
    return {"weight_packed": packed, "weight_scale": (power + _BIAS).to(torch.uint8)}, values


def _ternary(name: str, weight: Tensor) -> Written:
    scale = (1 / weight.abs().mean().clamp_min(1e-6)).bfloat16().reshape(1)
    codes = (weight * scale.float()).round().clamp(-1, 1).long()
    quarters = (codes + 1).view(4, -1, weight.shape[1])
    packed = quarters[0] | quarters[1] << 2 | quarters[2] << 4 | quarters[3] << 6
    return {"weight": packed.to(torch.uint8), "weight_scale": scale}, codes / scale.float()


def _compressed(layout: str, **weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"group_0": group}, "ignore": []}


def _gptq_settings(group: int, symmetric: bool, ordered: bool = False) -> dict[str, Any]:
    return {"quant_method": "gptq", "bits": 4, "group_size": group, "sym": symmetric, "desc_act": ordered}


def _of_gptq(group: int, symmetric: bool, ordered: bool = False) -> tuple[dict[str, Any], PartsOf]:
    parts: Callable[[str, Tensor], Written] = partial(_gptq, group, symmetric, ordered)
    return _gptq_settings(group, symmetric, ordered), parts


_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "GEMM"}
_FP8 = {"quant_method": "fp8", "weight_block_size": [_FP8_BLOCK, _FP8_BLOCK], "activation_scheme": "dynamic"}
_BITNET = {"quant_method": "bitnet", "linear_class": "bitlinear", "quantization_mode": "offline"}
_FOUR = {"num_bits": 4, "strategy": "group", "group_size": 32}
FORMATS: Mapping[str, tuple[Mapping[str, Any], PartsOf]] = {
    "GPTQ 4 bits, groups of 128, symmetric": _of_gptq(128, True),
    "GPTQ 4 bits, groups of 128, zero points": _of_gptq(128, False),
    "GPTQ 4 bits, groups of 128, act-order": _of_gptq(128, False, ordered=True),
    "AWQ, groups of 128": (_AWQ, _awq),
    "compressed-tensors 4 bits, groups of 32": (
        _compressed("pack-quantized", type="int", symmetric=True, **_FOUR),
        _packed,
    ),
    "compressed-tensors int8 of channels": (
        _compressed("int-quantized", num_bits=8, type="int", symmetric=True, strategy="channel"),
        _int8,
    ),
    "compressed-tensors FP8 of channels": (
        _compressed("float-quantized", num_bits=8, type="float", strategy="channel"),
        _fp8_channels,
    ),
    "compressed-tensors MXFP4": (_compressed("mxfp4-pack-quantized", type="float", **_FOUR), _mxfp4),
    "fine-grained FP8, blocks of 128 x 128": (_FP8, _fp8_blocks),
    "bitnet": (_BITNET, _ternary),
}
