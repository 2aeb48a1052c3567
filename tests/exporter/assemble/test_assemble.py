"""What the manifest says about a model."""

from __future__ import annotations

import torch
from torch import nn

from edgec.exporter.assemble.assemble import _parameters
from edgec.exporter.sources.resolve import ModelSource


def test_a_factorys_parameters_are_those_of_its_module_not_of_the_artifact() -> None:
    """The artifact of a quantised module holds scales too; 32 x 64 + 64 + 64 x 8 + 8 values were the user's."""
    module = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    source = ModelSource("mlp", "module", "mine:mlp", factory=lambda: (module, (torch.zeros(1, 32),)))
    assert _parameters(source) == 2632
