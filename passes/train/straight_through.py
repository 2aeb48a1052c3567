"""Straight-through rounding: forward, the numbers that an export stores; backward, as if nothing was rounded.

    weight = integers x scale, integers = nearest of a set      d weight: 1 inside the set's range, 0 outside
    scale = exp(log_scale), as the file holds it                d scale:  integers - w / scale inside, integers outside

The gradient of the scale is LSQ's (Esser et al. 2020, arXiv 1902.08153): inside the range a larger scale moves a value
by its rounding error, outside by the integer it is clipped to, so that one parameter learns step and clip. What is
trained is its logarithm: a scale stays positive, and one learning rate fits scales of any size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgec.ir.operators import dequantize, quantize
from edgec.passes.compress.rounding.learned_grids import Levels, stored_scale

_LOW, _HIGH = -128.0, 127.0
CACHES = {"float16": torch.float16, "int8": torch.int8, "int4": torch.uint8}


class _Weight(torch.autograd.Function):
    """Forward: a weight on its learned grid; backward: the gradients above."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, log_scale: Tensor, levels: Levels, half: bool) -> Tensor:
        scale = stored_scale(log_scale, half)
        groups = weight.view(*scale.shape, -1) * (1.0 / scale).unsqueeze(-1)
        ctx.save_for_backward(groups, scale)
        ctx.levels = levels
        return (levels.nearest(groups) * scale.unsqueeze(-1)).view(weight.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        groups, scale = ctx.saved_tensors
        low, high = ctx.levels.reach
        grad = grads[0].view(groups.shape)
        passed = grad * ((groups >= low) & (groups <= high))
        moved = (grad * ctx.levels.nearest(groups)).sub_(passed * groups).sum(-1)
        return passed.view(grads[0].shape), moved * scale, None, None


class _Input(torch.autograd.Function):
    """Forward: eight bits; backward: as if nothing was rounded.

    It is the arithmetic of torchao's ``choose_qparams_affine``, ``quantize_affine`` and ``dequantize_affine`` without
    the integers between them: the same numbers (tested), in less time.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: int) -> Tensor:
        plain = value.float()
        least = torch.finfo(torch.float32).smallest_normal
        if group:
            groups = plain.unflatten(-1, (-1, group))
            scale = (groups.abs().amax(-1, keepdim=True) / _HIGH).clamp_(min=least)
            result: Tensor = (
                (groups * (1.0 / scale)).round_().clamp_(-_HIGH, _HIGH).mul_(scale).view(value.shape).to(value.dtype)
            )
            return result
        low, high = plain.amin(-1, keepdim=True).clamp_(max=0), plain.amax(-1, keepdim=True).clamp_(min=0)
        scale = ((high - low) / (_HIGH - _LOW)).clamp_(min=least)
        zero_point = (_LOW - (low / scale).round_()).clamp_(_LOW, _HIGH)
        integers = (plain * (1.0 / scale)).round_().add_(zero_point).clamp_(_LOW, _HIGH)
        return integers.sub_(zero_point).mul_(scale).to(value.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return grads[0], None


class _Identity(torch.autograd.Function):
    """Forward: ``rounded``; backward: as if it were ``value``."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, rounded: Tensor) -> Tensor:
        return rounded.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return grads[0], None


def fake_weight(weight: Tensor, log_scale: Tensor, low: int, high: int, step: int, half: bool) -> Tensor:
    """A weight rounded to its learned grid, as float.

    Args:
        weight: float32 [N, K].
        log_scale: float32 [A, B], one entry for each N * K / (A * B) neighbouring values.
        low: smallest integer.
        high: largest integer.
        step: distance of two integers: 1, or 2 for the balanced set -3, -1, 1, 3.
        half: scales that bfloat16 can hold.
    """
    result: Tensor = _Weight.apply(weight, log_scale, Levels(low, high, step), half)  # type: ignore[no-untyped-call]
    return result


def fake_input(value: Tensor, group: int = 0) -> Tensor:
    """An activation [..., K] rounded to int8, as float.

    Args:
        value: the activation.
        group: values that share a scale; 0: a row shares a scale and a zero point.
    """
    result: Tensor = _Input.apply(value, group)  # type: ignore[no-untyped-call]
    return result


def fake_cache(value: Tensor, dtype: str, group: int) -> Tensor:
    """Keys or values [B, G, S, D] as a cache of ``dtype`` gives them back; ``group`` values share a grid."""
    with torch.no_grad():
        plain = value.detach().float().contiguous()
        if dtype == "float16":
            rounded = plain.half().to(value.dtype)
        else:
            rounded = dequantize(*quantize(plain, CACHES[dtype], group)).to(value.dtype)
    result: Tensor = _Identity.apply(value, rounded)  # type: ignore[no-untyped-call]
    return result
