"""What is laid out is read back to the bit, in every form and layout."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from edgec.backends.cpu.linear.layout import BlockRows, pack_matrix
from edgec.backends.cpu.linear.read_back import read_back
from tests.engine.test_linear_kernels import CASES, FORMS, Case, case_of, drawn
from tests.example_counts import examples


def check(case: Case, block_rows: BlockRows) -> None:
    shape = case.shape(block_rows)
    numbers = drawn(case, shape)
    parts = list(read_back(shape, pack_matrix(shape, numbers.values, numbers.scales, numbers.minimums)))
    assert torch.equal(torch.cat([values for values, _ in parts]).to(torch.int8), numbers.values)
    assert torch.equal(torch.cat([affine.scales for _, affine in parts]), numbers.scales)
    if numbers.minimums is not None:
        minimums = [affine.minimums for _, affine in parts if affine.minimums is not None]
        assert torch.equal(torch.cat(minimums), numbers.minimums)


@pytest.mark.parametrize("block_rows", BlockRows)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_is_read_back(form: object, block_rows: BlockRows) -> None:
    case = case_of(form, rows=40, group=64, groups=9, tokens=1, part=1, seed=3)  # type: ignore[arg-type]
    check(case, block_rows)


@settings(max_examples=examples(60), deadline=None)
@given(case=CASES)
def test_any_shape_is_read_back(case: Case) -> None:
    for block_rows in BlockRows:
        check(case, block_rows)


def test_many_rows_are_read_in_parts() -> None:
    check(case_of(FORMS[2], rows=4100, group=32, groups=1, tokens=1, part=1, seed=1), BlockRows.X86)
