"""Which form holds scales and minimums is found from the numbers, exactly or not at all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgec.backends.cpu.linear.scale_forms import Affine, ScaleForm, form_of, in_steps


def products(factors: Tensor, together: int, scale: float = 0.01) -> Tensor:
    """Whole numbers times a float16 step for each ``together`` of them."""
    rows, groups = factors.shape
    generator = torch.Generator().manual_seed(0)
    steps = (scale * (1 + torch.rand(rows, -(-groups // together), generator=generator))).half().float()
    return steps.repeat_interleave(together, 1)[:, :groups] * factors


def whole(low: int, high: int, groups: int = 18, rows: int = 5) -> Tensor:
    return torch.randint(low, high, (rows, groups), generator=torch.Generator().manual_seed(1)).float()


FLOAT16 = torch.rand(5, 18).half().float()
SIXES = products(whole(0, 64), 8)
EIGHTS = products(whole(-128, 128, 36), 16)
CASES = [
    (Affine(torch.rand(5, 1)), 576, 4, ScaleForm.ROW),
    (Affine(torch.rand(5, 18).bfloat16().float()), 576, 4, ScaleForm.BFLOAT16),
    (Affine(torch.full((5, 18), 0.25)), 576, 5, ScaleForm.FLOAT16),
    (Affine(FLOAT16), 576, 4, ScaleForm.FLOAT16),
    (Affine(FLOAT16, -FLOAT16.flip(0)), 576, 4, ScaleForm.FLOAT16_MINIMUM),
    (Affine(FLOAT16, -FLOAT16 * whole(0, 17)), 576, 4, ScaleForm.FLOAT16_ZERO),
    (Affine(FLOAT16, -FLOAT16 * whole(0, 256)), 576, 6, ScaleForm.FLOAT16_ZERO),
    (Affine(SIXES, -products(whole(0, 64), 8, 0.3)), 576, 4, ScaleForm.SIX_BITS),
    (Affine(SIXES, torch.zeros(5, 18)), 576, 4, ScaleForm.SIX_BITS),
    (Affine(EIGHTS), 576, 6, ScaleForm.EIGHT_BITS),
    # Nothing holds these.
    (Affine(torch.rand(5, 18) / 3), 576, 4, None),
    (Affine(torch.rand(5, 18) / 3, -FLOAT16), 576, 4, None),
    (Affine(EIGHTS), 576, 4, None),
    (Affine(FLOAT16, FLOAT16 * 3.0), 576, 4, None),
    (Affine(FLOAT16, -FLOAT16 * 257.0), 576, 4, None),
    (Affine(torch.full((5, 18), float("inf"))), 576, 4, None),
    (Affine(torch.full((5, 18), 1e6).bfloat16().float() + 1), 576, 5, None),
]


@pytest.mark.parametrize(("affine", "width", "bits", "form"), CASES)
def test_the_smallest_exact_form_is_found(affine: Affine, width: int, bits: int, form: ScaleForm | None) -> None:
    assert form_of(affine, width, bits, centred=affine.minimums is None) is form


def test_minimums_of_both_signs_are_no_products_of_six_bits() -> None:
    minimums = products(whole(-32, 32), 8, 0.3)
    minimums[:, 1:3] = minimums[:, 1:2].abs() * torch.tensor([1.0, -1.0])
    assert form_of(Affine(SIXES, minimums), 576, 4, centred=False) is not ScaleForm.SIX_BITS


@pytest.mark.parametrize("largest", [63, 62, 40, 3, 1])
def test_steps_are_found_whatever_the_largest_number_is(largest: int) -> None:
    numbers = products(whole(0, largest + 1).clamp_max(largest), 8)
    steps, counts = in_steps(numbers, 8, range(63, 0, -1))
    assert torch.equal(steps.repeat_interleave(8, 1)[:, :18] * counts, numbers)
    assert counts.max() <= 63 and torch.equal(counts, counts.round())
