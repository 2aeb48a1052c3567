"""AdamW over matrices, vectors and logarithms of scales, and its learning rate over a run."""

from __future__ import annotations

import math

from torch import nn
from torch.optim import AdamW

from edgec.exporter.adapt.settings import Settings

_BETAS = (0.9, 0.95)
_SCALE = "_log_scale"


def make_optimiser(model: nn.Module, settings: Settings) -> AdamW:
    """An AdamW for a model's trained parameters; each group keeps its peak learning rate under ``peak``."""
    matrices: list[nn.Parameter] = []
    vectors: list[nn.Parameter] = []
    scales: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = scales if name.endswith(_SCALE) else matrices if parameter.dim() > 1 else vectors
            kind.append(parameter)
    groups = (
        (matrices, settings.learning_rate, settings.weight_decay),
        (vectors, settings.learning_rate, 0.0),
        (scales, settings.scale_rate, 0.0),
    )
    return AdamW(
        [{"params": group, "lr": peak, "peak": peak, "weight_decay": decay} for group, peak, decay in groups if group],
        betas=_BETAS,
    )


def set_rate(optimizer: AdamW, share: float) -> None:
    """Set the learning rate of every group to a share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


def learning_rate_share(step: int, settings: Settings) -> float:
    """The share of the peak learning rate at an update, 0..1: a linear rise, then a cosine.

    Args:
        step: updates done so far.
        settings: the length of the run and of its warm-up, and the last share.
    """
    rise = max(1, round(settings.warm_up * settings.steps))
    if step < rise:
        return (step + 1) / rise
    progress = (step - rise) / max(1, settings.steps - rise)
    return settings.final_rate + (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * progress))
