from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.lut_form import dequantize_lut, lut_rows
from edgec.ir.weight_scheme import (
    BALANCED,
    WeightScheme,
    balanced,
    fit_tables,
    lut,
    require_supported,
    stored_bytes,
)
from edgec.passes.compress.rounding.weight_tables import balanced_integers, kept_weights, tabulate


def _weight(rows: int = 48, width: int = 128) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(0)) * 0.05


def _error(weight: Tensor, scheme: WeightScheme, moments: Tensor | None = None) -> float:
    values = tabulate(weight, scheme, moments=moments).dequantize()
    return float(((values - weight).square() * (1.0 if moments is None else moments)).sum().sqrt() / weight.norm())


def test_each_row_uses_the_table_of_its_group() -> None:
    indices = torch.randint(0, 16, (6, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    table = torch.arange(48.0).view(3, 16)
    wanted = torch.stack([table[row // 2][indices[row].long()] for row in range(6)])
    assert torch.equal(dequantize_lut(indices, table, None, 2), wanted)
    assert torch.equal(dequantize_lut(indices.view(6, 5, 1, 1), table, None, 2), wanted.view(6, 5, 1, 1))
    scale = torch.arange(1.0, 7.0)
    assert torch.equal(dequantize_lut(indices, table, scale, 2), wanted * scale[:, None])
    rows = torch.tensor([4, 0, 4])
    assert torch.equal(lut_rows(indices, table, scale, 2, rows), (wanted * scale[:, None])[rows])


def test_the_operator_is_what_torch_wants_of_one() -> None:
    arguments = (torch.zeros(4, 8, dtype=torch.uint8), torch.randn(2, 4), torch.ones(4), 2)
    torch.library.opcheck(torch.ops.edgec.dequantize_lut.default, arguments)


# a normal distribution's Lloyd-Max quantisers: relative errors 0.603, 0.343, 0.186, 0.0975, 0.0254 (Max 1960)
@pytest.mark.parametrize(("bits", "limit"), [(1, 0.61), (2, 0.35), (3, 0.19), (4, 0.1), (6, 0.026), (8, 0.007)])
def test_errors_are_those_of_the_best_quantiser(bits: int, limit: float) -> None:
    weight = _weight(32, 1024)
    assert 0.85 * limit * (bits < 6) < _error(weight, lut(bits, 32)) < limit
    assert _error(weight, lut(bits)) < 1.1 * limit


def test_one_table_for_a_matrix_above_a_blocks_size() -> None:
    weight = _weight(1100, 1024)
    tables = tabulate(weight, lut(4))
    assert tables.table.shape == (1, 16) and _error(weight, lut(4)) < 0.1


def test_indices_name_the_nearest_entry_but_for_a_bins_width() -> None:
    weight = _weight()
    tables = tabulate(weight, lut(3, 16))
    table = tables.table.repeat_interleave(16, 0)
    nearest = (weight[..., None] - table[:, None]).abs().amin(-1)
    # boundaries lie on bins: 1/4096 of the range, and tables are rounded to float16
    assert bool(((tables.dequantize() - weight).abs() <= nearest + 2 * 0.5 / 4096 + 1e-4).all())


def test_tables_hold_float16_values() -> None:
    table = tabulate(_weight(), lut(4, 16)).table
    assert torch.equal(table.half().float(), table)


@pytest.mark.parametrize("group_rows", [0, 1, 16])
def test_balanced_values_and_the_best_scale(group_rows: int) -> None:
    weight = _weight()
    tables = tabulate(weight, balanced(group_rows))
    scale = tables.table[:, 2:3] / BALANCED[2]
    # every entry is rounded to float16 by itself
    assert torch.allclose(tables.table, scale * torch.tensor(BALANCED), rtol=1e-3)
    best = (tables.dequantize() - weight).square().sum()
    for factor in (0.97, 1.03):
        table = (scale * factor)[:, :, None] * torch.tensor(BALANCED)
        rows = table.repeat_interleave(tables.group_rows, 0)
        other = (weight[..., None] - rows).abs().amin(-1).square().sum()
        assert best <= other


def test_balanced_integers_are_the_same_values() -> None:
    weight, scheme = _weight(), balanced(16)
    integers = balanced_integers(weight, scheme)
    assert set(integers.integers.unique().tolist()) == {-3, -1, 1, 3} and integers.scale.shape == (48, 1)
    # tables round 1.5 x scale to float16, integers multiply
    assert torch.allclose(integers.dequantize(), tabulate(weight, scheme).dequantize(), rtol=1e-3)


@pytest.mark.parametrize(("sparsity", "block"), [(0.5, 0), (0.5, 4), (0.75, 0)])
def test_pruned_weights_are_exact_zeros_at_index_0(sparsity: float, block: int) -> None:
    weight = _weight()
    tables = tabulate(weight, lut(4, 16, sparsity, block))
    zeros = tables.indices == 0
    assert bool((tables.table[:, 0] == 0).all()) and torch.equal(tables.dequantize() == 0, zeros)
    share = zeros.view(-1, block or weight.shape[1]).float().mean(1)
    assert bool((share == sparsity).all())
    kept = ~zeros
    assert float(weight.abs()[kept].min()) > 0 and _error(weight * kept, lut(4, 16, sparsity, block)) < 0.15


def test_what_is_pruned_depends_on_the_inputs() -> None:
    size = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    assert kept_weights(size, 0.5).tolist() == [[False, False, True, True]]
    moments = torch.tensor([100.0, 1.0, 1.0, 0.01])
    weight = size.repeat(2, 1)
    tables = tabulate(weight, lut(1, 0, 0.5), moments=moments)
    assert (tables.indices[0] != 0).tolist() == [True, False, True, False]


def test_weighting_by_inputs_lowers_the_error_that_counts() -> None:
    weight = _weight(16, 256)
    weight[:, 32:] *= 0.2
    moments = torch.cat([torch.full((32,), 50.0), torch.full((224,), 0.02)])
    plain = tabulate(weight, lut(3, 16)).dequantize()
    weighted = tabulate(weight, lut(3, 16), moments=moments).dequantize()
    errors = [float(((values - weight).square() * moments).sum()) for values in (plain, weighted)]
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize(("value", "code"), [(float("nan"), "E173"), (float("inf"), "E173"), (1e6, "E174")])
@pytest.mark.parametrize("scheme", [lut(4, 16), balanced(1)], ids=str)
def test_values_that_no_table_holds_are_refused(value: float, code: str, scheme: WeightScheme) -> None:
    weight = _weight()
    weight[3, 4] = value
    with pytest.raises(InputError) as caught:
        tabulate(weight, scheme, "layer.weight")
    assert caught.value.code == code and caught.value.where == "layer.weight"


def test_groups_that_do_not_divide_the_channels() -> None:
    assert fit_tables(lut(4, 16), 64) == (lut(4, 16), "")
    used, reason = fit_tables(lut(4, 16), 100)
    assert used == lut(4, 20) and "16" in reason and "100" in reason
    assert fit_tables(lut(4), 97)[0] == lut(4)


def test_bytes() -> None:
    assert stored_bytes((64, 128), lut(3, 16)) == 64 * 128 * 3 // 8 + 4 * 8 * 2
    assert stored_bytes((64, 128), lut(4, 0, 0.5)) == 64 * 128 // 8 + 64 * 128 // 2 * 4 // 8 + 16 * 2
    assert stored_bytes((64, 128), balanced(1)) == 64 * 128 * 2 // 8 + 64 * 4 * 2


@pytest.mark.parametrize(
    "scheme",
    [
        lut(5),
        lut(4, 0, 1.0),
        WeightScheme(2, 0, kind="balanced", activation_bits=8),
        WeightScheme(4, 32, kind="lut", activation_bits=0),
        WeightScheme(4, 0, group_rows=16),
        WeightScheme(4, 0, sparsity=0.5),
        WeightScheme(4, 0, kind="ternary"),
    ],
    ids=str,
)
def test_schemes_without_meaning_are_refused(scheme: WeightScheme) -> None:
    with pytest.raises(InputError) as caught:
        require_supported(scheme, "here")
    assert caught.value.code == "E174" and caught.value.fix
