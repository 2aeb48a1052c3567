"""AdamW over matrices, vectors and logarithms of scales, and its learning rate over a run."""

from __future__ import annotations

import math

from torch import nn
from torch.optim import AdamW

from edgec.exporter.adapt.settings import Settings

_BETAS = (0.9, 0.95)
_SCALE = "_log_scale"


def optimiser(model: nn.Module, settings: Settings) -> AdamW:
    """The optimiser; each group remembers its peak rate under ``peak``."""
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
        [{"params": found, "lr": peak, "peak": peak, "weight_decay": decay} for found, peak, decay in groups if found],
        betas=_BETAS,
    )


def set_rate(optimizer: AdamW, share: float) -> None:
    """Let every group run at a share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


def rate(step: int, settings: Settings) -> float:
    """The share of the peak learning rate at an update, 0..1.

    Args:
        step: updates done so far.
        settings: length of the run, of its warm-up, and the last share.
    """
    rise = max(1, round(settings.warm_up * settings.steps))
    if step < rise:
        return (step + 1) / rise
    way = (step - rise) / max(1, settings.steps - rise)
    return settings.final_rate + (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * way))
