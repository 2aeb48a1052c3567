"""How far inputs are from those that a network was trained on, as all of its batch norms tell.

    inputs -> layers -> what each batch norm sees, over all inputs  ~  its running mean and variance

Pictures from 0 to 255 for a network that was trained on -1 to 1, or channels in another order, stand out here, before
anything is compiled. Noise is far from any picture in the deeper layers, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from edgec.exporter.parity.typical_values import TYPICAL, deviations, is_trained


@dataclass(frozen=True)
class NormDistances:
    """The distance of each batch norm from its running statistics, by its name: root mean squares of deviations."""

    distances: Mapping[str, float]

    @property
    def typical(self) -> bool:
        """Whether inputs are like those of training: at half the batch norms or more."""
        return median(self.distances.values()) <= TYPICAL

    @property
    def line(self) -> str:
        """In words: ``0.4 deviations from the running statistics of 17 batch norms, 1.2 at bn3``."""
        worst = max(self.distances, key=lambda name: self.distances[name])
        middle, most = median(self.distances.values()), self.distances[worst]
        if len(self.distances) == 1:
            return f"{middle:.2g} deviations from the running statistics of {worst}"
        norms = f"{len(self.distances)} batch norms"
        return f"{middle:.2g} deviations from the running statistics of {norms}, {most:.2g} at {worst}"


@dataclass
class _Moments:
    """Sums of a batch norm's channels over all inputs."""

    count: int = 0
    total: Tensor = field(default_factory=lambda: torch.zeros(()))
    squares: Tensor = field(default_factory=lambda: torch.zeros(()))

    def add(self, value: Tensor) -> None:
        rows = value.transpose(0, 1).reshape(value.shape[1], -1).double()
        self.count += rows.shape[1]
        self.total, self.squares = self.total + rows.sum(1), self.squares + rows.square().sum(1)

    def distance(self, norm: _BatchNorm) -> float:
        mean = self.total / self.count
        return deviations(mean, (self.squares / self.count - mean.square()).clamp(min=0), norm)


def norm_distances(model: nn.Module, calls: Iterable[Sequence[Tensor]]) -> NormDistances | None:
    """How far some inputs are from training; None for a network without a trained batch norm, or that fails on them.

    Args:
        model: in evaluation mode.
        calls: the inputs of each call.
    """
    norms = {name: each for name, each in model.named_modules() if isinstance(each, _BatchNorm) and is_trained(each)}
    moments = {name: _Moments() for name in norms}
    hooks = [each.register_forward_pre_hook(_adding(moments[name])) for name, each in norms.items()]
    try:
        with torch.no_grad():
            for call in calls if hooks else ():
                model(*call)
    except Exception:  # Model code of any family fails in its own way.
        return None
    finally:
        for hook in hooks:
            hook.remove()
    seen = {name or "its batch norm": each.distance(norms[name]) for name, each in moments.items() if each.count}
    return NormDistances(seen) if seen else None


def _adding(moments: _Moments) -> Callable[[nn.Module, Any], None]:
    def add(module: nn.Module, given: Any) -> None:
        moments.add(given[0])

    return add
