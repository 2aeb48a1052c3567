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
