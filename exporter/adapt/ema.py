"""A moving average of the weights, which is often better than the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class MovingAverage:
    """Averages of a model's trained parameters.

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
        """Begin at the model's present weights."""
        trained = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
        return cls(model, decay, trained if decay else {})

    @torch.no_grad()
    def update(self, updates: int) -> None:
        """Take in the present weights; early on the past weighs less, since there is little of it."""
        decay = min(self.decay, (1 + updates) / (10 + updates))
        for name, average in self.values.items():
            average.lerp_(self.model.get_parameter(name).detach(), 1 - decay)

    def settle(self) -> None:
        """The model has its averages from now on."""
        self._swap()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has its averages inside the block."""
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
