"""A moving average of the weights, which often does better than the last ones."""

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
