"""Find integers and scales for one weight matrix: pure functions, one tensor at a time, rows in blocks.

A weight w is stored as the integer q and read back as q * scale, one scale for each group of values along a row. The
zero point is always 0, or groups have minimums (lifted_grid.py). There are three ways to choose scales:

- ``rtn``: the largest magnitude of the group maps to the end of the grid; bit for bit what torchao does.
- ``hqq``: alternate between rounding and the least-squares scale (torchao's scale-only HQQ).
- ``mse``: search shrunken and stretched scales for the least weighted squared error, each refined by least squares.
  Measured against 24 evenly spaced scales on Gaussian, heavy-tailed and trained weights: 0.9995 to 1.0002 of their
  error at 4 bits, 0.98 to 0.99 at 8, 0.98 to 0.999 at 2, in 40 % of their CPU time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.rounding.lifted_grid import lifted_groups

# Large enough that calling torch costs little compared with its work: 20 ns of CPU time a weight, 27 with 1 << 16.
_BLOCK_VALUES = 1 << 18
# Shares of the largest magnitude's scale that are tried, then steps away from the best so far, ever smaller.
_SHARES = (0.6, 0.671, 0.743, 0.814, 0.886, 0.957, 1.029, 1.1)
_LOW_SHARES, _FEW = (0.2, 0.3, 0.4, 0.5), 5  # where few integers are used, most values lie far below the largest
_STEPS = (0.036, 0.018, 0.009)


@dataclass(frozen=True)
class QuantizedWeight:
    """A matrix on a grid.

    Attributes:
        integers: int8 [N, K].
        scale: float32 [N, K/g].
        beside: int8 zeros [N, K/g], the zero points; or float32 [N, K/g], the minimums.
    """

    integers: Tensor
    scale: Tensor
    beside: Tensor

    def dequantize(self) -> Tensor:
        """The values the integers stand for, float32 [N, K]."""
        rows, width = self.integers.shape
        groups = self.integers.float().view(rows, self.scale.shape[1], -1)
        return (groups * self.scale.unsqueeze(-1)).add_(self.beside.unsqueeze(-1)).view(rows, width)


Scales = Callable[[Tensor, WeightScheme], Tensor]


def quantize_weight(
    weight: Tensor, scheme: WeightScheme, algorithm: str, name: str = "", moments: Tensor | None = None
) -> QuantizedWeight:
    """Round a matrix to integers with scales.

    Args:
        weight: [N, K], any float dtype; read in blocks of rows, so at most one block exists in float32.
        scheme: bits and group; the group divides K.
        algorithm: ``rtn``, ``hqq`` or ``mse``.
        name: for the error message.
        moments: mean square of each input, float32 [K], which then weighs the errors of ``mse``.

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
    if not scheme.symmetric:
        return _lifted(weight, scheme, name, moments)
    integers = torch.empty((rows, width), dtype=torch.int8)
    scale = torch.empty((rows, width // group), dtype=torch.float32)
    step = max(1, _BLOCK_VALUES // width)
    choose = ALGORITHMS[algorithm] if moments is None else partial(_mse, moments=moments.view(width // group, group))
    for start in range(0, rows, step):
        block = _finite(weight[start : start + step].to(torch.float32), name).view(-1, width // group, group)
        chosen = _on_scale_grid(choose(block, scheme), scheme)
        scale[start : start + step] = chosen
        # Nearest grid points; multiplying by the reciprocal is torchao's arithmetic, kept for bit-exactness.
        nearest = (block * (1.0 / chosen).unsqueeze(-1)).round_().clamp_(*scheme.bounds)
        integers[start : start + step] = nearest.view(-1, width).to(torch.int8)
    return QuantizedWeight(integers, scale, torch.zeros_like(scale, dtype=torch.int8))


def _lifted(weight: Tensor, scheme: WeightScheme, name: str, moments: Tensor | None) -> QuantizedWeight:
    """A matrix whose groups have minimums; there is one way to choose them."""
    (rows, width), group = weight.shape, scheme.group_size
    shared = None if moments is None else moments.view(-1, group)
    integers = torch.empty((rows, width), dtype=torch.int8)
    scale, minimum = torch.empty((2, rows, width // group))
    for start in range(0, rows, max(1, _BLOCK_VALUES // width)):
        part = slice(start, start + max(1, _BLOCK_VALUES // width))
        block = _finite(weight[part].to(torch.float32), name).view(-1, width // group, group)
        chosen = lifted_groups(block, scheme, shared)
        scale[part], minimum[part] = chosen.scale, chosen.minimum
        integers[part] = chosen.codes(block, scheme.bounds[1]).view(-1, width).to(torch.int8)
    return QuantizedWeight(integers, scale, minimum)


def require_algorithm(algorithm: str, where: str) -> None:
    """Refuse an unknown algorithm.

    Raises:
        InputError: E174.
    """
    if algorithm not in (*ALGORITHMS, *WITH_INPUTS):
        raise InputError(
            what=f"unknown quantisation algorithm {algorithm!r}",
            where=where,
            fix=f"use one of {', '.join((*ALGORITHMS, *WITH_INPUTS))}",
            code="E174",
        )


def without_inputs(algorithm: str) -> str:
    """The algorithm for a tensor whose inputs are not known."""
    return "mse" if algorithm in WITH_INPUTS else algorithm


def with_inputs(algorithm: str) -> str:
    """The algorithm where a text shows what layers read."""
    return GPTQ if algorithm == GPTQ_OR_MSE else algorithm


def _finite(block: Tensor, name: str) -> Tensor:
    if not all(math.isfinite(float(end)) for end in torch.aminmax(block)):
        raise InputError(
            what="a weight holds NaN or infinity",
            where=name,
            why="the checkpoint is damaged, or training diverged",
            fix="check the checkpoint; quantising it would hide the damage",
            code="E173",
        )
    return block


def _on_scale_grid(scale: Tensor, scheme: WeightScheme) -> Tensor:
    return scale.to(torch.bfloat16).float() if scheme.scale_bits == 16 else scale


def _absmax(groups: Tensor, scheme: WeightScheme) -> Tensor:
    """The scales that map each group's largest magnitude to the end of the grid."""
    low, high = scheme.bounds
    return (groups.abs().amax(-1) / (float(high - low) / 2)).clamp_min(torch.finfo(torch.float32).smallest_normal)


def _hqq(groups: Tensor, scheme: WeightScheme) -> Tensor:
    from torchao.quantization.quant_primitives import _choose_qparams_and_quantize_scale_only_hqq as hqq

    rows, count, group = groups.shape
    _, scale = hqq(groups.reshape(rows, count * group), [1, group], *scheme.bounds)
    result: Tensor = scale
    return result


def _mse(groups: Tensor, scheme: WeightScheme, moments: Tensor | None = None) -> Tensor:
    """The scales with the least weighted squared error: larger weights count more (llama.cpp), or larger inputs."""
    start = _absmax(groups, scheme)
    fit = _Fit.of(groups, scheme, moments)
    best = _BestScale(start, torch.zeros_like(start), torch.ones_like(start))
    for share in (*_LOW_SHARES, *_SHARES) if 0 < scheme.levels <= _FEW else _SHARES:
        best = best.or_better(fit, start, torch.full_like(start, share))
    for step in _STEPS:
        middle = best.share
        for nearby in (middle - step, middle + step):
            best = best.or_better(fit, start, nearby)
    refined, saved = fit.refine(best.scale)
    searched = _on_scale_grid(torch.where(saved > 0, refined, start), scheme)
    plain = _on_scale_grid(start, scheme)
    return torch.where(fit.error(searched) < fit.error(plain), searched, plain)


@dataclass(frozen=True)
class _Fit:
    """Weighted least squares of a block [R, G, g]; two buffers serve all evaluations."""

    groups: Tensor
    importance: Tensor
    weighted: Tensor
    buffers: tuple[Tensor, Tensor]
    bounds: tuple[int, int]

    @classmethod
    def of(cls, groups: Tensor, scheme: WeightScheme, moments: Tensor | None) -> _Fit:
        squares = groups.square()
        importance = squares.add_(squares.mean(-1, keepdim=True)).sqrt_()
        if moments is not None:
            importance = moments.clamp_min(1e-6 * float(moments.mean()) + 1e-20).expand_as(groups).contiguous()
        buffers = (torch.empty_like(groups), torch.empty_like(groups))
        return cls(groups, importance, importance * groups, buffers, scheme.bounds)

    def refine(self, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The best scale for the integers that ``scale`` leads to, and how much error it saves against storing zeros.

        With these integers fixed: above^2 / below, the largest value of a quadratic in the scale; 0 where all are 0.
        """
        integers, product = self._rounded(scale), self.buffers[1]
        above = torch.mul(integers, self.weighted, out=product).sum(-1).clamp_min_(0.0)
        below = integers.mul_(integers).mul_(self.importance).sum(-1).clamp_min_(1e-30)
        better = above / below
        return better, above.mul_(better)

    def error(self, scale: Tensor) -> Tensor:
        """The weighted squared error of rounding with ``scale``, per group."""
        difference = self._rounded(scale).mul_(scale.unsqueeze(-1)).sub_(self.groups)
        return difference.square_().mul_(self.importance).sum(-1)

    def _rounded(self, scale: Tensor) -> Tensor:
        inverse = scale.reciprocal().unsqueeze(-1)
        return torch.mul(self.groups, inverse, out=self.buffers[0]).round_().clamp_(*self.bounds)


@dataclass(frozen=True)
class _BestScale:
    """The best scale so far, the error it saves, and its share of the scale that the largest magnitude asks for."""

    scale: Tensor
    saved: Tensor
    share: Tensor

    def or_better(self, fit: _Fit, start: Tensor, share: Tensor) -> _BestScale:
        """The better of this scale and the one that ``share`` leads to, group by group."""
        scale, saved = fit.refine(start * share)
        # 0 or 1, between which lerp is exact: torch.where takes twenty times as long on a CPU.
        better = torch.gt(saved, self.saved, out=torch.empty_like(saved))
        return _BestScale(self.scale.lerp(scale, better), self.saved.maximum(saved), self.share.lerp(share, better))


GPTQ, GPTQ_OR_MSE = "gptq", "gptq-or-mse"
"""The algorithm with the scales of ``mse``, and integers chosen column by column on calibration text (``gptq.py``)."""
IMPORTANCE = "importance"
"""The algorithm with the scales of ``mse``, where errors count as inputs are large on calibration text."""
WITH_INPUTS = (IMPORTANCE, GPTQ, GPTQ_OR_MSE)
ALGORITHMS: dict[str, Scales] = {"rtn": _absmax, "hqq": _hqq, "mse": _mse}
