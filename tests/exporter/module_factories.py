"""Modules with example inputs, for ``edgec export tests.exporter.module_factories:NAME``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests import modules


class Logits(nn.Module):
    """A model that returns nothing but its logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, first: Tensor, mask: Tensor | None = None) -> Tensor:
        logits: Tensor = (self.model(first) if mask is None else self.model(first, attention_mask=mask)).logits
        return logits


def vit() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A two-layer ViT and an image."""
    return Logits(modules.vit()), (torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)),)


def bert() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A two-layer BERT and a padded text."""
    padded, _ = modules.padded_text()
    return Logits(modules.bert()), (padded["input_ids"], padded["attention_mask"])


class Computed(nn.Module):
    """A convolution whose weight ``forward`` computes from parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shape = nn.Parameter(torch.rand(40, 1)), nn.Parameter(torch.rand(1, 25))

    def forward(self, x: Tensor) -> dict[str, Tensor | int]:
        weight = (self.scale.abs() @ self.shape)[:, None]
        return {"features": nn.functional.conv1d(x, weight, stride=10), "channels": 40}


def computed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module with a computed weight, which returns a dict with a constant."""
    torch.manual_seed(0)
    return Computed(), (torch.randn(1, 1, 400),)


class Twice(nn.Module):
    """A module that returns one value under two names."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        result = x + 1
        return {"first": result, "second": result}


def twice() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module that returns one value under two names."""
    return Twice(), (torch.ones(1, 4),)


def double() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module in float64."""
    torch.manual_seed(0)
    return nn.Linear(8, 4).double(), (torch.ones(1, 8).double(),)


class Counter(nn.Module):
    """A module that counts its calls in a buffer."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def counter() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module that keeps state between calls."""
    return Counter(), (torch.ones(1, 4),)


def traced() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A module of TorchScript."""
    torch.manual_seed(0)
    example = torch.randn(1, 3, 8, 8)
    return torch.jit.trace(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval(), example), (example,)
