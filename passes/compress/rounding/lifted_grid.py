"""Find integers, scales and minimums for one matrix: w is stored as q, counted from 0, and read as q * scale + minimum.

A group of 32 weights spans what lies between its smallest and its largest value, not twice its largest magnitude: at
4 bits that is a bit more of resolution. Scales and minimums are multiples, by 0..63, of a float16 number that 8 groups
share (``scale_bits`` 6: half a bit a weight for both, as llama.cpp's K types store them), or float16 numbers (16).

    1. For a few shares of the span: round, and solve the least-squares equations for scale and minimum; the best wins.
    2. Put both on their grid, then try their neighbours on it, which takes back most of what the grid costs.
    3. Round the weights once more.

Errors count as inputs are large where ``moments`` are known. Measured on SmolLM2-135M-Instruct, linear layers in 4.5
bits, novel and chat: KL 0.071 with moments, 0.162 without; symmetric groups of the same size 0.21 and 0.37.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgec.ir.weight_scheme import WeightScheme

_SHARES = (1.05, 1.0, 0.95, 0.9, 0.85, 0.8, 0.74, 0.68)
_SUPER = 8
_MOST = 63
_LEAST = 1e-12


@dataclass(frozen=True)
class LiftedGroups:
    """Scales and minimums of groups, float32 [R, G], on the grid that stores them."""

    scale: Tensor
    minimum: Tensor

    def codes(self, groups: Tensor, most: int) -> Tensor:
        """The nearest integers for values [R, G, g], as floats."""
        return _codes(groups, self.scale, self.minimum, most)


def lifted_groups(groups: Tensor, scheme: WeightScheme, moments: Tensor | None = None) -> LiftedGroups:
    """Scales and minimums with the least weighted squared error that the search finds.

    Args:
        groups: float32 [R, G, g], G groups of g weights in each of R rows.
        scheme: without ``symmetric``.
        moments: mean square of each input, float32 [G, g]; None: all inputs count alike.
    """
    most = scheme.bounds[1]
    importance = torch.ones_like(groups[:1]) if moments is None else _positive(moments)[None]
    fitted = _fitted(groups, importance, most)
    if scheme.scale_bits != 6:
        return LiftedGroups(_half(fitted.scale), _half(fitted.minimum))
    return _on_six_bits(groups, importance, fitted, most)


def _positive(moments: Tensor) -> Tensor:
    return moments.clamp_min(1e-6 * float(moments.mean()) + 1e-20)


def _codes(groups: Tensor, scale: Tensor, minimum: Tensor, most: int) -> Tensor:
    inverse = torch.where(scale > 0, scale, 1.0).reciprocal()
    return (groups - minimum.unsqueeze(-1)).mul_(inverse.unsqueeze(-1)).round_().clamp_(0, most)


@dataclass(frozen=True)
class _Sums:
    """Weighted sums of a block [R, G, g] that do not depend on the codes."""

    one: Tensor
    x: Tensor
    xx: Tensor


def _fitted(groups: Tensor, importance: Tensor, most: int) -> LiftedGroups:
    """Scales and minimums in float, the minimums at most 0."""
    weighted = groups * importance
    sums = _Sums(importance.sum(-1), weighted.sum(-1), (weighted * groups).sum(-1))
    low, high = groups.amin(-1).clamp_max_(0), groups.amax(-1).clamp_min_(0)
    span = (high - low).clamp_min_(_LEAST)
    best = LiftedGroups(span / most, low)
    least = torch.full_like(low, torch.inf)
    for share in _SHARES:
        start = _codes(groups, span * (share / most), low + span * ((1 - share) / 2), most)
        scale, minimum, error = _least_squares(start, importance, weighted, sums)
        better = error < least
        least = torch.where(better, error, least)
        best = LiftedGroups(torch.where(better, scale, best.scale), torch.where(better, minimum, best.minimum))
    return best


def _least_squares(codes: Tensor, importance: Tensor, weighted: Tensor, sums: _Sums) -> tuple[Tensor, Tensor, Tensor]:
    """The best scale and minimum (at most 0) for given codes, and their weighted squared error."""
    cx = (codes * weighted).sum(-1)
    of_codes = codes * importance
    c, cc = of_codes.sum(-1), of_codes.mul_(codes).sum(-1)
    determinant = sums.one * cc - c * c
    solvable = determinant > 1e-12 * sums.one * cc
    scale = torch.where(solvable, (sums.one * cx - c * sums.x) / torch.where(solvable, determinant, 1.0), 0.0)
    minimum = (sums.x - scale * c) / sums.one
    above = (minimum > 0) | (scale <= 0)
    scale = torch.where(above, cx / cc.clamp_min(_LEAST), scale).clamp_min_(0)
    minimum = torch.where(above, 0.0, minimum)
    error = sums.xx + scale * scale * cc + minimum * minimum * sums.one
    error += 2 * (scale * minimum * c - scale * cx - minimum * sums.x)
    return scale, minimum, error


def _half(x: Tensor) -> Tensor:
    return x.half().float()


def _on_six_bits(groups: Tensor, importance: Tensor, fitted: LiftedGroups, most: int) -> LiftedGroups:
    """The neighbours on the grid of 6 bits with the least error."""
    scale_step, minimum_step = _steps(fitted.scale), _steps(-fitted.minimum)
    s = _multiples(fitted.scale, scale_step)
    best = LiftedGroups(s * scale_step, -_multiples(-fitted.minimum, minimum_step) * minimum_step)
    least = torch.full_like(s, torch.inf)
    for change in (0, -1, 1):
        scale = (s + change).clamp_(0, _MOST) * scale_step
        # The minimum that suits this scale, then the nearest on its grid.
        codes = _codes(groups, scale, fitted.minimum, most)
        difference = (groups - codes * scale.unsqueeze(-1)).mul_(importance).sum(-1) / importance.sum(-1)
        m = _multiples(-difference, minimum_step)
        for minimum in (-(m + step).clamp_(0, _MOST) * minimum_step for step in (-1, 0, 1)):
            codes = _codes(groups, scale, minimum, most)
            values = codes.mul_(scale.unsqueeze(-1)).add_(minimum.unsqueeze(-1)).sub_(groups)
            error = values.square_().mul_(importance).sum(-1)
            better = error < least
            least = torch.where(better, error, least)
            best = LiftedGroups(torch.where(better, scale, best.scale), torch.where(better, minimum, best.minimum))
    return best


def _steps(numbers: Tensor) -> Tensor:
    """The float16 step of each group's 8, float32 [R, G]: the largest of them is 63 steps."""
    rows, groups = numbers.shape
    padded = torch.nn.functional.pad(numbers, (0, -groups % _SUPER)).view(rows, -1, _SUPER)
    return _half(padded.amax(-1) / _MOST).repeat_interleave(_SUPER, 1)[:, :groups]


def _multiples(numbers: Tensor, step: Tensor) -> Tensor:
    return (numbers / torch.where(step > 0, step, 1.0)).round_().clamp_(0, _MOST)
