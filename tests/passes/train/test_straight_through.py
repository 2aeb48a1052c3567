"""Rounding with gradients: sets of integers, and the gradients of a weight and its scale."""

from __future__ import annotations

import pytest
import torch

from edgec.ir.quantized_form import CHOOSE, DEQUANTIZE, QUANTIZE
from edgec.ir.weight_scheme import balanced
from edgec.passes.compress.rounding.learned_grids import Levels, stored_scale
from edgec.passes.compress.rounding.weight_tables import balanced_integers
from edgec.passes.train.straight_through import fake_cache, fake_input, fake_weight

BALANCED = Levels(-3, 3, 2)


def test_the_balanced_set_rounds_as_its_integers_do() -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    quantized = balanced_integers(weight, balanced(1))
    assert torch.equal(BALANCED.nearest(weight / quantized.scale).to(torch.int8), quantized.integers)


def test_ends_and_middle_of_a_set() -> None:
    values = torch.tensor([-9.0, -2.0, -0.1, 0.0, 0.1, 2.0, 2.1, 9.0])
    assert BALANCED.nearest(values).tolist() == [-3, -3, -1, -1, 1, 1, 3, 3]
    assert Levels(-1, 1).nearest(values).tolist() == [-1, -1, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("levels", [Levels(-8, 7), Levels(-1, 1), BALANCED])
def test_clipped_weights_get_no_gradient_and_move_the_scale(levels: Levels) -> None:
    low, high = levels.reach
    weight = torch.tensor([[0.3, high + 1.0, low - 1.0]], requires_grad=True)
    log_scale = torch.zeros(1, 1, requires_grad=True)
    fake_weight(weight, log_scale, levels.low, levels.high, levels.step, False).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [[1.0, 0.0, 0.0]]
    inside = float(levels.nearest(torch.tensor([0.3]))) - 0.3
    assert log_scale.grad is not None
    # of the clipped ones, the derivative is exact: the integer times the scale; of the others, LSQ's
    assert float(log_scale.grad) == pytest.approx(inside + levels.high + levels.low, abs=1e-6)


def test_stored_scales_are_what_the_file_holds() -> None:
    log_scale = torch.randn(64, generator=torch.Generator().manual_seed(1))
    scale = stored_scale(log_scale, half=True)
    assert torch.equal(scale, scale.bfloat16().float())
    torch.testing.assert_close(scale, log_scale.exp(), rtol=2**-8, atol=0)


@pytest.mark.parametrize("half", [True, False])
def test_a_row_of_zeros_stays_finite(half: bool) -> None:
    weight, log_scale = torch.zeros(1, 8, requires_grad=True), torch.full((1, 1), -200.0, requires_grad=True)
    rounded = fake_weight(weight, log_scale, BALANCED.low, BALANCED.high, BALANCED.step, half)
    rounded.sum().backward()
    assert float(rounded.detach().abs().max()) < 1e-6 and weight.grad is not None and log_scale.grad is not None
    assert bool(weight.grad.isfinite().all()) and bool(log_scale.grad.isfinite().all())


def test_inputs_and_caches_pass_gradients_on() -> None:
    value = torch.randn(1, 2, 5, 8, requires_grad=True)
    for rounded in (fake_input(value), fake_cache(value, "int4", 8)):
        (gradient,) = torch.autograd.grad(rounded.sum(), value)
        assert torch.equal(gradient, torch.ones_like(value))
        assert 0 < float((rounded - value).abs().max()) < 0.5


def test_inputs_are_rounded_as_the_exported_graph_rounds_them() -> None:
    values = torch.randn(6, 5, 48, generator=torch.Generator().manual_seed(1)) * torch.logspace(-4, 3, 6)[:, None, None]
    values[0, 0], values[1, 1] = 0.0, values[1, 1].abs()
    values[2, 2] = -values[2, 2].abs()
    block, grid = [1, 1, 48], (torch.int8, -128, 127)
    scale, zero_point = CHOOSE(values, "ASYMMETRIC", block, *grid, None, None, torch.int8)
    integers = QUANTIZE(values, block, scale, zero_point, *grid)
    assert torch.equal(fake_input(values), DEQUANTIZE(integers, block, scale, zero_point, *grid))


def test_groups_of_inputs_are_rounded_as_the_exported_graph_rounds_them() -> None:
    values = torch.randn(6, 5, 64, generator=torch.Generator().manual_seed(1)) * torch.logspace(-4, 3, 6)[:, None, None]
    values[0, 0], values[1, 1, :32] = 0.0, 0.0
    block, grid = [1, 1, 32], (torch.int8, -127, 127)
    scale, zero_point = CHOOSE(values, "SYMMETRIC", block, *grid, None, None, torch.int8)
    integers = QUANTIZE(values, block, scale, zero_point, *grid)
    assert torch.equal(fake_input(values, 32), DEQUANTIZE(integers, block, scale, zero_point, *grid))
