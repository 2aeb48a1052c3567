"""Modules with example inputs, for ``edgec export tests.exporter.module_factories:NAME``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests import modules


def vit() -> tuple[Any, tuple[Tensor, ...]]:
    """A two-layer ViT and an image."""
    return modules.vit(), (torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)),)


def bert() -> tuple[Any, tuple[Tensor, ...]]:
    """A two-layer BERT and a padded text."""
    padded, _ = modules.padded_text()
    return modules.bert(), (padded["input_ids"], padded["attention_mask"])
