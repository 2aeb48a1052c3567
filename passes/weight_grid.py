"""Integers and scales for one weight matrix: pure functions, one tensor at a time, rows in blocks.

A weight w is stored as the integer q and read back as q * scale, one scale for each group of values along a row. The
zero point is always 0. Three ways of choosing scales:

- ``rtn``: the largest magnitude of the group maps to the end of the grid; bit for bit what torchao does.
- ``hqq``: alternate between rounding and the least-squares scale (torchao's scale-only HQQ).
- ``mse``: try shrunken and stretched scales, refine each by least squares, keep the least weighted squared error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.passes.weight_scheme import WeightScheme

_BLOCK_VALUES = 1 << 18  # a block and its working copies stay in a core's cache
_CANDIDATES = 24
_SHRINK, _STRETCH = 0.55, 1.10


@dataclass(frozen=True)
class QuantizedWeight:
    """A matrix on a grid: ``integers`` int8 [N, K], ``scale`` float32 [N, K/g], ``zero_point`` int8 zeros [N, K/g]."""

    integers: Tensor
    scale: Tensor
    zero_point: Tensor

    def dequantize(self) -> Tensor:
        """The values the integers stand for, float32 [N, K]."""
        rows, width = self.integers.shape
        groups = self.integers.float().view(rows, self.scale.shape[1], -1)
        return (groups * self.scale.unsqueeze(-1)).view(rows, width)


Scales = Callable[[Tensor, WeightScheme], Tensor]


def quantize_weight(weight: Tensor, scheme: WeightScheme, algorithm: str, name: str = "") -> QuantizedWeight:
    """Put a matrix on a grid.

    Args:
        weight: [N, K], any float dtype; read in blocks of rows, so at most one block exists in float32.
        scheme: bits and group; the group divides K.
        algorithm: ``rtn``, ``hqq`` or ``mse``.
        name: for the error message.

    Raises:
        InputError: E173, the weight holds NaN or infinity; E174, the group does not divide K.
    """
    rows, width = weight.shape
    group = scheme.block(width)
    if width % group:
        raise InputError(
            what=f"a group of {group} does not divide the width {width}",
            where=name,
            fix="choose a group size that divides the width, or 0 for per channel",
            code="E174",
        )
    integers = torch.empty((rows, width), dtype=torch.int8)
    scale = torch.empty((rows, width // group), dtype=torch.float32)
    step = max(1, _BLOCK_VALUES // width)
    for start in range(0, rows, step):
        block = _finite(weight[start : start + step].to(torch.float32), name).view(-1, width // group, group)
        chosen = _on_scale_grid(ALGORITHMS[algorithm](block, scheme), scheme)
        scale[start : start + step] = chosen
        integers[start : start + step] = _round(block, chosen, scheme).view(-1, width).to(torch.int8)
    return QuantizedWeight(integers, scale, torch.zeros_like(scale, dtype=torch.int8))


def _finite(block: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(block).all()):
        raise InputError(
            what="a weight holds NaN or infinity",
            where=name,
            why="the checkpoint is damaged, or training diverged",
            fix="check the checkpoint; quantising it would hide the damage",
            code="E173",
        )
    return block


def _round(groups: Tensor, scale: Tensor, scheme: WeightScheme) -> Tensor:
    """Nearest grid points; multiplying by the reciprocal is torchao's arithmetic, kept for bit-exactness."""
    return (groups * (1.0 / scale).unsqueeze(-1)).round_().clamp_(*scheme.bounds)


def _on_scale_grid(scale: Tensor, scheme: WeightScheme) -> Tensor:
    return scale.to(torch.bfloat16).float() if scheme.scale_bits == 16 else scale


def _absmax(groups: Tensor, scheme: WeightScheme) -> Tensor:
    low, high = scheme.bounds
    return (groups.abs().amax(-1) / (float(high - low) / 2)).clamp_min(torch.finfo(torch.float32).smallest_normal)


def _hqq(groups: Tensor, scheme: WeightScheme) -> Tensor:
    from torchao.quantization.quant_primitives import _choose_qparams_and_quantize_scale_only_hqq as hqq

    rows, count, group = groups.shape
    _, scale = hqq(groups.reshape(rows, count * group), [1, group], *scheme.bounds)
    return scale


def _mse(groups: Tensor, scheme: WeightScheme) -> Tensor:
    """Least weighted squared error over candidate scales; larger weights count more (llama.cpp's weighting)."""
    start = _absmax(groups, scheme)
    importance = (groups.square() + groups.square().mean(-1, keepdim=True)).sqrt_()
    best = start.clone()
    least = _error(groups, _on_scale_grid(best, scheme), importance, scheme)
    for factor in torch.linspace(_SHRINK, _STRETCH, _CANDIDATES).tolist():
        candidate = _on_scale_grid(_refine(groups, start * factor, importance, scheme), scheme)
        error = _error(groups, candidate, importance, scheme)
        better = error < least
        best, least = torch.where(better, candidate, best), torch.where(better, error, least)
    return best


def _refine(groups: Tensor, scale: Tensor, importance: Tensor, scheme: WeightScheme) -> Tensor:
    """The best scale for the integers that ``scale`` leads to (weighted least squares); ``scale`` where all are 0."""
    integers = _round(groups, scale, scheme)
    weighted = integers * importance
    above, below = (weighted * groups).sum(-1), (weighted * integers).sum(-1)
    return torch.where((below > 0) & (above > 0), above / below.clamp_min(1e-30), scale)


def _error(groups: Tensor, scale: Tensor, importance: Tensor, scheme: WeightScheme) -> Tensor:
    difference = _round(groups, scale, scheme).mul_(scale.unsqueeze(-1)).sub_(groups)
    return difference.square_().mul_(importance).sum(-1)


ALGORITHMS: dict[str, Scales] = {"rtn": _absmax, "hqq": _hqq, "mse": _mse}
