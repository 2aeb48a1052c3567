"""Ranges of activations that are fixed at export."""

from __future__ import annotations

import pytest
import torch

from edgec.ir.fixed_ranges import FixedRange


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 3.0), (0.0, 5.0), (2.0, 5.0), (-4.0, -1.0), (0.0, 0.0), (-1e30, 1e30)]
)
def test_a_range_holds_zero_and_both_ends(low: float, high: float) -> None:
    held = FixedRange.of(low, high)
    values = torch.tensor([low, high, 0.0], dtype=torch.float64)
    integers = (torch.round(values / held.scale) + held.zero_point).clamp(-128, 127)
    back = (integers - held.zero_point) * held.scale
    assert back[2] == 0 and -128 <= held.zero_point <= 127
    # Half a step, and half a step more where zero moves onto the grid.
    assert float((back - values).abs().max()) <= held.scale * 1.0001
