"""A float16 artifact that gives NaN where its graph gives numbers is refused, and one that cannot hold them is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.parity.made_inputs import Stress
from edgec.exporter.parity.stress import check_stress

EXAMPLE = (torch.randn(1, 2, 4000, generator=torch.Generator().manual_seed(0)),)


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(2)


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * x * 1000).sigmoid() - (x * x * 1000).mean(2, keepdim=True).log()


def added_first(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The mean in float16 by a sum, which ends at 65,504."""
    return [inputs[0].sum(2).half() / 4000]


def squared(inputs: Sequence[Tensor]) -> list[Tensor]:
    x = inputs[0].half()
    return [(x * x * 1000).sigmoid() - (x * x * 1000).float().mean(2, keepdim=True).half().log()]


def moved(by: float, moderate: bool) -> list[Stress]:
    return [Stress(f"shifted by {by:g} spreads", (EXAMPLE[0] + by,), moderate)]


def test_a_mean_that_is_added_first_is_refused() -> None:
    program = capture_module(Mean(), EXAMPLE)
    check_stress(moved(0, True), program, added_first)
    with pytest.raises(InputError, match="NaN or infinities") as refused:
        check_stress(moved(100, False), program, added_first)
    assert refused.value.code == "E830" and "shifted by 100" in refused.value.where and "--inputs" in refused.value.fix
    check_stress(moved(100, False), program, lambda inputs: [inputs[0].mean(2)])


def test_what_float16_cannot_hold_is_refused_on_moderate_inputs_alone() -> None:
    program = capture_module(Square(), EXAMPLE)
    assert not bool(squared(moved(20, False)[0].inputs)[0].isfinite().all())
    check_stress(moved(20, False), program, squared)
    with pytest.raises(InputError):
        check_stress(moved(20, True), program, squared)
