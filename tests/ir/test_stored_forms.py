"""The forms of safetensors have schemes that count the bytes that kernels store."""

from __future__ import annotations

import pytest

from edgec.backends.cpu.linear.layout import FROM_ZERO, SYMMETRIC, BlockRows, PackedMatrix
from edgec.backends.cpu.linear.scale_forms import ScaleForm
from edgec.ir.kernel_grids import STORED_KERNELS, fit
from edgec.ir.stored_forms import HELD_GROUPS, PACKED_FORMS
from edgec.ir.weight_scheme import stored_bytes


@pytest.mark.parametrize("group", [0, 32, 96, 128, 1024])
@pytest.mark.parametrize("name", PACKED_FORMS)
def test_kernels_read_every_form_as_it_is(name: str, group: int) -> None:
    form = PACKED_FORMS[name]
    width = 3 * (group or 32)
    if not form.symmetric and not group:
        return  # Zero points belong to groups.
    scheme = form.scheme(group)
    used, reason = fit(scheme, width, STORED_KERNELS)
    assert used is not None and used.stored == name and not reason
    assert (used.bits, used.group_size, used.symmetric) == (form.bits, group, form.symmetric)
    assert str(used) == f"{name} as stored"


@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("symmetric", [True, False])
def test_decisions_count_the_bytes_of_the_artifact(symmetric: bool, group: int) -> None:
    scheme = PACKED_FORMS[f"GPTQ {'' if symmetric else 'u'}int4"].scheme(group)
    form, grid = (ScaleForm.FLOAT16, SYMMETRIC) if symmetric else (ScaleForm.FLOAT16_ZERO, FROM_ZERO)
    shape = PackedMatrix(16, 4 * group, group, grid[4], BlockRows.X86, form)
    assert stored_bytes((16, 4 * group), scheme) == shape.bytes


def test_groups_are_whole_slices() -> None:
    assert all(group % 32 == 0 for group in HELD_GROUPS) and HELD_GROUPS[0] == 1024
