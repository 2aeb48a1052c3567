from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.ir.kernel_grids import DYNAMIC_INT8_KERNELS, fit, lookup_kernels
from edgec.ir.weight_decision import decide
from edgec.ir.weight_scheme import WeightScheme, require_supported, stored_bytes
from edgec.passes.compress.rounding.weight_grid import ALGORITHMS, quantize_weight
from tests.example_counts import examples


def _matrix(rows: int, width: int, seed: int, spread: float = 1.0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)) * spread


@st.composite
def _cases(draw: st.DrawFn) -> tuple[torch.Tensor, WeightScheme]:
    group, count = draw(st.sampled_from((0, 16, 32, 43))), draw(st.integers(1, 4))
    width = (group or draw(st.sampled_from((1, 7, 64, 172)))) * count
    scheme = WeightScheme(draw(st.sampled_from((2, 4, 8))), group, scale_bits=draw(st.sampled_from((16, 32))))
    spread = draw(st.sampled_from((1e-6, 1e-2, 1.0, 1e4)))
    return _matrix(draw(st.integers(1, 9)), width, draw(st.integers(0, 999)), spread), scheme


@settings(max_examples=examples(60), deadline=None)
@given(_cases(), st.sampled_from(sorted(ALGORITHMS)))
def test_integers_stay_on_the_grid_and_shapes_fit(case: tuple[torch.Tensor, WeightScheme], algorithm: str) -> None:
    weight, scheme = case
    grid = quantize_weight(weight, scheme, algorithm)
    groups = weight.shape[1] // scheme.block(weight.shape[1])
    low, high = scheme.bounds
    assert grid.integers.dtype == torch.int8 and grid.integers.shape == weight.shape
    assert int(grid.integers.min()) >= low and int(grid.integers.max()) <= high
    assert grid.scale.shape == grid.beside.shape == (weight.shape[0], groups)
    assert grid.scale.dtype == torch.float32 and bool((grid.scale > 0).all()) and not grid.beside.any()


@settings(max_examples=examples(60), deadline=None)
@given(_cases())
def test_rounding_to_nearest_errs_by_half_a_step_at_most(case: tuple[torch.Tensor, WeightScheme]) -> None:
    weight, scheme = case
    grid = quantize_weight(weight, scheme, "rtn")
    low, high = scheme.bounds
    groups = weight.view(weight.shape[0], grid.scale.shape[1], -1)
    scale = grid.scale.unsqueeze(-1)
    # the largest magnitude lies half a step beyond the positive end of a two's-complement grid; a float32 ulp on top,
    # and with 16-bit scales the end itself moves by up to 2^-8 of the grid's half width
    slack = 0.5 + 1e-4 + (2**-8 * max(-low, high) if scheme.scale_bits == 16 else 0.0)
    assert bool(((grid.dequantize().view_as(groups) - groups).abs() <= slack * scale).all())


@settings(max_examples=examples(40), deadline=None)
@given(_cases())
def test_the_scale_search_is_never_worse_than_rounding_in_its_own_measure(
    case: tuple[torch.Tensor, WeightScheme],
) -> None:
    weight, scheme = case
    rows, width = weight.shape
    groups = weight.view(rows, width // scheme.block(width), -1)
    importance = (groups.square() + groups.square().mean(-1, keepdim=True)).sqrt()

    def error(algorithm: str) -> torch.Tensor:
        rounded = quantize_weight(weight, scheme, algorithm).dequantize().view_as(groups)
        return (importance * (rounded - groups).square()).sum(-1)

    plain = error("rtn")
    # both sums are float32 over at most 172 terms
    assert bool((error("mse") <= plain * (1 + 1e-4) + 1e-30).all())


def test_the_scale_search_beats_rounding_on_ordinary_weights() -> None:
    weight, scheme = _matrix(64, 256, 0), WeightScheme(4, 32, scale_bits=16)
    errors = {
        name: float((quantize_weight(weight, scheme, name).dequantize() - weight).square().mean())
        for name in ALGORITHMS
    }
    assert errors["mse"] < 0.95 * errors["rtn"]


def _exhaustive(groups: torch.Tensor, scheme: WeightScheme) -> torch.Tensor:
    """The error that 24 evenly spaced scales leave, each refined once by least squares, per group."""
    importance = (groups.square() + groups.square().mean(-1, keepdim=True)).sqrt()
    low, high = scheme.bounds
    start = groups.abs().amax(-1, keepdim=True) / ((high - low) / 2)
    errors = []
    for share in torch.linspace(0.55, 1.10, 24).tolist():
        integers = (groups / (start * share)).round().clamp(low, high)
        sums = [(importance * integers * factor).sum(-1, keepdim=True) for factor in (groups, integers)]
        scale = sums[0] / sums[1]
        rounded = (groups / scale).round().clamp(low, high) * scale
        errors.append((importance * (rounded - groups).square()).sum(-1))
    return torch.stack(errors).amin(0)


@pytest.mark.parametrize("scheme", [WeightScheme(4, 32), WeightScheme(8, 0), WeightScheme(2, 0)], ids=str)
@pytest.mark.parametrize("power", [1.0, 2.0], ids=["gaussian", "heavy tails"])
def test_the_scale_search_is_as_good_as_trying_24_scales(scheme: WeightScheme, power: float) -> None:
    weight = _matrix(256, 512, 1)
    weight = weight.sign() * weight.abs() ** power
    groups = weight.view(256, 512 // scheme.block(512), -1)
    importance = (groups.square() + groups.square().mean(-1, keepdim=True)).sqrt()
    rounded = quantize_weight(weight, scheme, "mse").dequantize().view_as(groups)
    # on the grid of scales that it tries the search may stop one step beside the best: measured up to 1.0002
    error = float((importance * (rounded - groups).square()).sum())
    assert error <= 1.001 * float(_exhaustive(groups, scheme).sum())


def test_rows_of_zeros_stay_zero_with_a_usable_scale() -> None:
    weight = _matrix(4, 64, 0)
    weight[1] = 0
    weight[2, :32] = 0
    for algorithm in ALGORITHMS:
        grid = quantize_weight(weight, WeightScheme(4, 32), algorithm)
        assert not grid.dequantize()[1].any() and not grid.dequantize()[2, :32].any()
        # kernels refuse scales that are zero or denormal
        assert float(grid.scale.min()) >= torch.finfo(torch.float32).smallest_normal


def test_16_bit_scales_survive_a_cast_to_bfloat16() -> None:
    for algorithm in ALGORITHMS:
        scale = quantize_weight(_matrix(8, 64, 3), WeightScheme(4, 32, scale_bits=16), algorithm).scale
        assert torch.equal(scale, scale.to(torch.bfloat16).float())


def test_blocks_of_rows_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, scheme = _matrix(37, 64, 5), WeightScheme(4, 32)
    whole = quantize_weight(weight, scheme, "mse")
    monkeypatch.setattr("edgec.passes.compress.rounding.weight_grid._BLOCK_VALUES", 64 * 5)
    blocks = quantize_weight(weight, scheme, "mse")
    assert torch.equal(whole.integers, blocks.integers) and torch.equal(whole.scale, blocks.scale)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_damaged_weights_are_refused(value: float) -> None:
    weight = _matrix(4, 64, 0)
    weight[2, 3] = value
    with pytest.raises(InputError) as caught:
        quantize_weight(weight, WeightScheme(), "rtn", "layer.weight")
    assert (caught.value.code, caught.value.where) == ("E173", "layer.weight")


def test_a_group_that_does_not_divide_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        quantize_weight(_matrix(4, 172, 0), WeightScheme(4, 32), "rtn")
    assert caught.value.code == "E174"


@pytest.mark.parametrize(
    ("asked", "width", "used"),
    [
        (WeightScheme(4, 32), 64, WeightScheme(4, 32)),
        (WeightScheme(4, 128), 192, WeightScheme(4, 64)),
        (WeightScheme(4, 128), 96, WeightScheme(4, 32)),
        (WeightScheme(4, 32), 172, WeightScheme(8, 0)),
        (WeightScheme(4, 0), 96, WeightScheme(4, 0)),
        (WeightScheme(4, 0), 172, WeightScheme(8, 0)),
        (WeightScheme(8, 32), 64, WeightScheme(8, 0)),
        (WeightScheme(2, 32), 64, WeightScheme(4, 32)),
        (WeightScheme(4, 32, scale_bits=16), 172, WeightScheme(8, 0, scale_bits=32)),
    ],
)
def test_awkward_widths_get_the_nearest_legal_scheme(asked: WeightScheme, width: int, used: WeightScheme) -> None:
    fitted, reason = fit(asked, width, DYNAMIC_INT8_KERNELS)
    assert fitted == used
    assert bool(reason) == (asked != used)
    assert not reason or (str(asked) in reason and str(width) in reason)


@pytest.mark.parametrize(
    ("bits", "group", "width", "used"),
    [(4, 32, 64, (4, 32)), (4, 32, 172, (4, 0)), (4, 0, 63, (8, 0)), (2, 32, 172, (2, 0)), (8, 16, 48, (8, 16))],
)
def test_look_ups_take_any_group_that_fills_bytes(bits: int, group: int, width: int, used: tuple[int, int]) -> None:
    fitted, _ = fit(WeightScheme(bits, group), width, lookup_kernels(width))
    assert fitted is not None and (fitted.bits, fitted.group_size) == used


def test_sizes_count_packed_integers_and_scales() -> None:
    assert stored_bytes((10, 64), WeightScheme(4, 32, scale_bits=16)) == 10 * (32 + 2 * 2)
    assert stored_bytes((10, 172), WeightScheme(8, 0)) == 10 * (172 + 4)
    assert decide("w", "linear", (10, 64), None, (None, "")).bytes == 10 * 64 * 4


@pytest.mark.parametrize(
    "scheme",
    [
        WeightScheme(5),
        WeightScheme(4, -1),
        WeightScheme(activation_bits=4),
        WeightScheme(scale_bits=8),
        WeightScheme(symmetric=False),
    ],
)
def test_unknown_schemes_are_refused(scheme: WeightScheme) -> None:
    with pytest.raises(InputError) as caught:
        require_supported(scheme, "quantize")
    assert caught.value.code == "E174"
