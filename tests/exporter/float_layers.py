"""Small networks of which float16 loses a layer, for tests of ``--keep-float``."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Power(nn.Module):
    """Weighted power along the width: sums of about 128,000 for values of spread 1, scaled down only then."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(2000 + torch.rand(64))

    def forward(self, x: Tensor) -> Tensor:
        return (x * x * self.weight).sum(-1, keepdim=True) * 1e-5


class Loud(nn.Module):
    """A network whose ``power`` overflows float16 on any inputs; everything else is of ordinary size."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.power = nn.Linear(64, 64), Power()
        self.norm, self.last = nn.LayerNorm(64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x))
        result: Tensor = self.last(x * self.power(x))
        return result


class Difference(nn.Module):
    """A small difference of two large numbers, which 11 bits lose although none of them is beyond float16."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.last = nn.Linear(64, 64), nn.Linear(64, 8)
        nn.init.constant_(self.large.bias, 2000.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.large(x)
        result: Tensor = self.last(x - x.mean(-1, keepdim=True))
        return result


def loud() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, and rows of ordinary values."""
    torch.manual_seed(0)
    return Loud().eval(), (torch.randn(1, 16, 64),)


def difference() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, and rows of ordinary values."""
    torch.manual_seed(0)
    return Difference().eval(), (torch.randn(1, 16, 64),)
