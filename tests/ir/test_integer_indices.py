"""Integers become indices into the values in use where these take fewer bits than 4 or 8."""

from __future__ import annotations

import pytest
import torch

from edgec.ir.integer_indices import indexed


@pytest.mark.parametrize(
    ("bounds", "values", "grouped", "bits"),
    [
        ((-2, 1), (-1, 0, 1), False, 2),
        ((-2, 1), (-2, -1, 0, 1), True, 2),
        ((-4, 3), tuple(range(-4, 4)), True, 3),
        ((-16, 15), tuple(range(-16, 16)), True, 6),
        ((-16, 15), (-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12), True, 4),
        ((-32, 31), tuple(range(-32, 32)), True, 6),
        ((-128, 127), (-127, -104, -83, 0, 1, 13, 113), True, 3),
    ],
)
def test_indices_stand_for_the_same_integers(
    bounds: tuple[int, int], values: tuple[int, ...], grouped: bool, bits: int
) -> None:
    own = torch.tensor(values, dtype=torch.int8)
    chosen = torch.randint(0, len(own), (64, 32), generator=torch.Generator().manual_seed(0))
    chosen[0, : len(own) % 32] = torch.arange(len(own) % 32)
    made = indexed(own[chosen], bounds, grouped)
    assert made is not None and made.bits == bits and made.indices.dtype == torch.uint8
    assert torch.equal(made.values[made.indices.long()], own[chosen])
    assert torch.equal(made.values, own[chosen].unique())


@pytest.mark.parametrize(("bounds", "grouped"), [((-8, 7), True), ((-128, 127), False), ((0, 15), True)])
def test_what_four_and_eight_bits_hold_stays(bounds: tuple[int, int], grouped: bool) -> None:
    assert indexed(torch.ones(4, 32, dtype=torch.int8), bounds, grouped) is None


def test_more_values_than_a_codebook_has_stay_in_eight_bits() -> None:
    integers = torch.arange(-8, 9, dtype=torch.int8).repeat(32, 1)
    assert indexed(integers, (-128, 127), True) is None
    assert indexed(integers[:, :16], (-128, 127), True) is not None
