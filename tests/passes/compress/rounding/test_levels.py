"""Few integers in a wider container: ternary, three bits."""

from __future__ import annotations

import math

import pytest
import torch

from edgec.errors import InputError
from edgec.exporter.recipes.file import parse_recipe
from edgec.ir.kernel_grids import DYNAMIC_INT8_KERNELS, fit
from edgec.ir.weight_decision import decide
from edgec.ir.weight_scheme import WeightScheme, require_supported
from edgec.passes.compress.rounding.weight_grid import quantize_weight

WEIGHT = torch.randn(16, 128, generator=torch.Generator().manual_seed(0))


def error(scheme: WeightScheme, algorithm: str) -> float:
    return float((quantize_weight(WEIGHT, scheme, algorithm).dequantize() - WEIGHT).square().mean())


@pytest.mark.parametrize(("levels", "wanted"), [(3, {-1, 0, 1}), (8, set(range(-4, 4))), (5, set(range(-2, 3)))])
def test_only_these_integers_are_used(levels: int, wanted: set[int]) -> None:
    quantized = quantize_weight(WEIGHT, WeightScheme(4, 32, levels=levels), "mse")
    assert set(quantized.integers.unique().tolist()) == wanted


def test_the_search_knows_that_few_levels_want_small_scales() -> None:
    ternary = WeightScheme(4, 0, levels=3)
    # the best ternary grid for Gaussian values has 0.19 of their variance as error (Lloyd-Max, 3 levels)
    assert error(ternary, "mse") < 0.25 * float(WEIGHT.square().mean()) < error(ternary, "rtn")


def test_a_wider_container_keeps_the_levels() -> None:
    used, reason = fit(WeightScheme(4, 32, levels=3), 172, DYNAMIC_INT8_KERNELS)
    assert used is not None and (used.bits, used.levels, used.bounds, used.held) == (8, 3, (-1, 1), (-128, 127))
    assert "3 levels" in reason


def test_the_ledger_tells_what_carries_meaning() -> None:
    scheme = WeightScheme(4, 32, levels=3)
    decision = decide("w", "linear", (16, 128), scheme, (scheme, ""))
    assert decision.container_bits == 4 and decision.information_bits == pytest.approx(math.log2(3))


@pytest.mark.parametrize("wrong", [WeightScheme(4, 32, levels=2), WeightScheme(4, 32, levels=17)])
def test_levels_that_do_not_fit_are_refused(wrong: WeightScheme) -> None:
    with pytest.raises(InputError) as caught:
        require_supported(wrong, "test")
    assert caught.value.code == "E174"


def test_recipes_ask_for_levels() -> None:
    table = {"weights": {"bits": 4, "group_size": 32, "levels": 3}}
    recipe = parse_recipe(table, "ternary", "test")
    assert recipe.weights is not None and recipe.weights.levels == 3
    with pytest.raises(InputError) as caught:
        parse_recipe({"weights": {"bits": 4, "group_size": 32, "levels": 40}}, "wrong", "test")
    assert caught.value.code == "E171"
