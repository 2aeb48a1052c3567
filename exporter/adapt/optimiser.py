"""AdamW over matrices, vectors and logarithms of scales, its learning rate over a run, and averages of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
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


@dataclass
class MovingAverage:
    """Moving averages of a model's trained parameters, which often do better than the last ones.

    Attributes:
        model: whose.
        decay: weight of the past at each update; 0 follows the model itself and holds nothing.
        values: parameter -> average.
    """

    model: nn.Module
    decay: float
    values: dict[str, Tensor]

    @classmethod
    def of(cls, model: nn.Module, decay: float) -> MovingAverage:
        """Start from the model's present weights."""
        trained = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
        return cls(model, decay, trained if decay else {})

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Take in the present weights; early on the past weighs less, since there is little of it."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        for name, average in self.values.items():
            average.lerp_(self.model.get_parameter(name).detach(), 1 - decay)

    def settle(self) -> None:
        """Put the averages into the model for good."""
        self._swap()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the averages into the model for the length of a block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, average in self.values.items():
            parameter = self.model.get_parameter(name)
            held = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(held)
