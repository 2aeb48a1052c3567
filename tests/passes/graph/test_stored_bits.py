"""How many bits an artifact holds a constant in, and what a cut counts for it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import run_pass
from edgec.passes.static.parts.cut_model import stored_sizes

VALUES = 64 * 96


def _sizes(rewrite: Palettize | Quantize, *, packed: bool) -> int:
    """Bytes of the largest constant of one linear layer."""
    torch.manual_seed(0)
    layer = nn.Linear(64, 96, bias=False).eval().requires_grad_(False)
    return max(stored_sizes(run_pass(capture_module(layer, (torch.ones(1, 64),)), rewrite), packed=packed).values())


@pytest.mark.parametrize("bits", [2, 4, 6])
def test_indices_into_a_table_count_their_bits(bits: int) -> None:
    assert _sizes(Palettize(default=lut(bits)), packed=True) == VALUES * bits // 8
    assert _sizes(Palettize(default=lut(bits)), packed=False) == VALUES


def test_integers_of_four_bits_count_half_a_byte() -> None:
    scheme = WeightScheme(4, 0, activation_bits=0)
    assert _sizes(Quantize(default=scheme), packed=True) == VALUES // 2
    assert _sizes(Quantize(default=scheme), packed=False) == VALUES
