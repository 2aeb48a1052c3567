"""Groups with minimums: what the search finds lies on the grid that stores it, and loses less than groups around 0."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgec.backends.cpu.linear.scale_forms import Affine, ScaleForm, form_of
from edgec.errors import InputError
from edgec.ir.weight_scheme import WeightScheme, require_supported, stored_bytes
from edgec.passes.compress.rounding.gptq import Curvature, gptq_integers
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight, quantize_weight


def lifted(bits: int, scale_bits: int = 6) -> WeightScheme:
    return WeightScheme(bits, 32, symmetric=False, scale_bits=scale_bits)


def weights(rows: int = 24, width: int = 320) -> Tensor:
    """Heavy tails, groups that lie to one side, and a group of zeros."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(rows, width, generator=generator) ** 3 / 20
    values[:, 64:96] += 0.3
    values[:, 96:128] = 0
    return values


def loss(weight: Tensor, grid: QuantizedWeight, moments: Tensor | None = None) -> float:
    errors = (grid.dequantize() - weight).square()
    return float((errors if moments is None else errors * moments).sum())


@pytest.mark.parametrize("scale_bits", [6, 16])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6])
def test_the_kernels_hold_what_the_search_finds(bits: int, scale_bits: int) -> None:
    grid = quantize_weight(weights(), lifted(bits, scale_bits), "mse")
    assert grid.integers.min() >= 0 and grid.integers.max() < 1 << bits
    assert (grid.scale >= 0).all() and (grid.beside <= 0).all()
    form = form_of(Affine(grid.scale, grid.beside), 320, bits, centred=False)
    assert form is (ScaleForm.SIX_BITS if scale_bits == 6 else ScaleForm.FLOAT16_MINIMUM)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_minimums_take_no_more_bytes_and_lose_less_than_groups_around_zero(bits: int) -> None:
    around = WeightScheme(bits, 32, scale_bits=16)
    # Eight groups of a row share what their steps cost; 320 values are ten groups, the last two by themselves.
    assert stored_bytes((1, 256), lifted(bits)) == stored_bytes((1, 256), around)
    weight = torch.randn(32, 256, generator=torch.Generator().manual_seed(1))
    # One step more between smallest and largest value, and a span that is no longer symmetric.
    assert loss(weight, quantize_weight(weight, lifted(bits), "mse")) < 0.9 * loss(
        weight, quantize_weight(weight, around, "mse")
    )


def test_scales_of_six_bits_cost_little_since_they_are_searched_on_their_grid() -> None:
    weight = torch.randn(64, 512, generator=torch.Generator().manual_seed(2))
    free, packed = (loss(weight, quantize_weight(weight, lifted(4, bits), "mse")) for bits in (16, 6))
    # Measured 1.05.
    assert packed < 1.1 * free


def test_errors_count_as_inputs_are_large() -> None:
    weight, moments = weights(), torch.ones(320)
    moments[::7] = 400.0
    plain, weighted = (quantize_weight(weight, lifted(3), "mse", "", each) for each in (None, moments))
    # Measured 0.2: a seventh of the inputs holds nearly all of the sum.
    assert loss(weight, weighted, moments) < 0.5 * loss(weight, plain, moments)


def test_a_matrix_of_zeros_stays_zero() -> None:
    grid = quantize_weight(torch.zeros(4, 64), lifted(4), "mse")
    assert not grid.dequantize().any()


def test_columns_that_follow_compensate_on_the_same_grid() -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(16, 64, generator=generator)
    inputs = torch.randn(512, 64, generator=generator) @ torch.randn(64, 64, generator=generator)
    curvature = Curvature.of(inputs)
    fitted = gptq_integers(weight, lifted(3), curvature)
    plain = quantize_weight(weight, lifted(3), "mse", "", curvature.moments)
    errors = [((grid.dequantize() - weight) @ inputs.T).square().sum() for grid in (fitted, plain)]
    assert torch.equal(fitted.scale, plain.scale) and torch.equal(fitted.beside, plain.beside)
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize(
    "scheme",
    [
        WeightScheme(8, 32, symmetric=False, scale_bits=6),
        WeightScheme(4, 64, symmetric=False, scale_bits=6),
        WeightScheme(4, 32, symmetric=False, scale_bits=32),
        WeightScheme(4, 32, symmetric=False, scale_bits=6, levels=8),
        WeightScheme(5, 32, scale_bits=16),
    ],
    ids=str,
)
def test_forms_without_a_meaning_are_refused(scheme: WeightScheme) -> None:
    with pytest.raises(InputError) as caught:
        require_supported(scheme, "here")
    assert caught.value.code == "E174"
