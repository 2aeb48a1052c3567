"""Codes and sizes of packed matrices; tests/engine/test_linear_kernels.py reads their bytes with kernels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.backends.cpu.linear import layout
from edgec.backends.cpu.linear.layout import (
    BALANCED2,
    FROM_ZERO,
    SYMMETRIC,
    TERNARY,
    BlockRows,
    CodeGrid,
    PackedMatrix,
    pack_matrix,
)
from edgec.backends.cpu.linear.weights import fewest_bits
from tests.example_counts import examples

GRIDS = (*SYMMETRIC.values(), *FROM_ZERO.values(), BALANCED2, TERNARY)
IN_PLACE = tuple(grid for grid in GRIDS if grid.bits not in (5, 6))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_codes_and_values_are_each_others_inverse(grid: CodeGrid) -> None:
    codes = torch.arange(3 if grid == TERNARY else 1 << grid.bits, dtype=torch.uint8)
    assert torch.equal(grid.codes(grid.values(codes)), codes)


@pytest.mark.parametrize(
    ("values", "grid"),
    [
        ([-1, 0, 1], TERNARY),
        ([-2, 1], SYMMETRIC[2]),
        ([-3, 1, 3], BALANCED2),
        ([-3, 0, 3], SYMMETRIC[3]),
        ([-4, 3], SYMMETRIC[3]),
        ([-8, 7], SYMMETRIC[4]),
        ([-5, 8], SYMMETRIC[5]),
        ([-32, 31], SYMMETRIC[6]),
        ([-33, 31], SYMMETRIC[8]),
        ([-128, 127], SYMMETRIC[8]),
    ],
)
def test_a_matrix_takes_the_fewest_bits_that_hold_it(values: list[int], grid: CodeGrid) -> None:
    assert fewest_bits(torch.tensor([values], dtype=torch.int8)) == grid


@pytest.mark.parametrize(
    ("bits", "group", "per_weight"),
    [(2, 0, 2.0), (2, 64, 2.25), (2, 32, 2.5), (3, 32, 3.5), (4, 32, 4.5), (8, 32, 8.5)],
)
def test_a_weight_takes_its_bits_and_its_share_of_the_scale(bits: int, group: int, per_weight: float) -> None:
    shape = PackedMatrix(1024, 2048, group, SYMMETRIC[bits], BlockRows.ARM64)
    per_row = 0 if group else 4  # a scale where the row is one group
    assert shape.bytes == 1024 * 2048 * per_weight / 8 + 1024 * per_row


def test_an_odd_shape_is_filled_up() -> None:
    shape = PackedMatrix(17, 172, 0, SYMMETRIC[4], BlockRows.X86)
    assert shape.bytes == 32 * (192 // 2 + 4)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(GRIDS), st.sampled_from(list(BlockRows)), st.integers(1, 70), st.sampled_from([0, 32, 64]))
def test_a_matrix_packed_in_parts_is_the_same(grid: CodeGrid, rows: BlockRows, count: int, group: int) -> None:
    shape = PackedMatrix(count, 128, group, grid, rows)
    values = grid.values(torch.randint(0, 3, (count, 128), dtype=torch.uint8)).to(torch.int8)
    scales = torch.rand(count, shape.groups)
    whole = pack_matrix(shape, values, scales)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_CHUNK_ROWS", 16)
        assert torch.equal(pack_matrix(shape, values, scales), whole)


@pytest.mark.parametrize(("processor", "rows"), [("x86_64", 16), ("AMD64", 16), ("arm64", 8), ("aarch64", 8)])
def test_a_processor_has_its_layout(processor: str, rows: int) -> None:
    assert BlockRows.of(processor) == rows
