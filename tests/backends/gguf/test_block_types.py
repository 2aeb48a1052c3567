"""Every type of GGUF that is written holds a matrix to the bit, as the gguf package reads it, or refuses it."""

from __future__ import annotations

from collections.abc import Callable

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from edgec.backends.cpu.linear.scale_forms import Affine
from edgec.backends.gguf.block_types import BLOCK_TYPES, GridMatrix, type_of
from edgec.backends.gguf.packed_blocks import packed

ROWS, WIDTH = 6, 512


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def _codes(low: int, high: int) -> Tensor:
    return torch.randint(low, high + 1, (ROWS, WIDTH), generator=_generator(), dtype=torch.int8)


def _halves(groups: int, seed: int = 0) -> Tensor:
    """Float16 numbers of the size of trained scales, as float32."""
    made = torch.rand(ROWS, groups, generator=torch.Generator().manual_seed(seed))
    return (0.01 * made + 0.001).half().float()


def _products(groups: int, together: int, most: int) -> Tensor:
    """A float16 number for some groups times whole numbers, of which the first is the largest there may be."""
    counts = torch.randint(0, most + 1, (ROWS, groups), generator=_generator()).float()
    counts[:, ::together] = most
    return _halves(groups // together).repeat_interleave(together, 1) * counts


MATRICES: dict[str, Callable[[], GridMatrix]] = {
    "Q4_0": lambda: GridMatrix(_codes(-8, 7), Affine(_halves(16))),
    "Q4_1": lambda: GridMatrix(_codes(0, 15), Affine(_halves(16), -_halves(16, 1))),
    "Q5_0": lambda: GridMatrix(_codes(-16, 15), Affine(_halves(16))),
    "Q5_1": lambda: GridMatrix(_codes(0, 31), Affine(_halves(16), -_halves(16, 1))),
    "Q8_0": lambda: GridMatrix(_codes(-128, 127), Affine(_halves(16))),
    "Q4_K": lambda: GridMatrix(_codes(0, 15), Affine(_products(16, 8, 63), -_products(16, 8, 63).flip(0))),
    "Q5_K": lambda: GridMatrix(_codes(0, 31), Affine(_products(16, 8, 63), -_products(16, 8, 63).flip(0))),
    "Q6_K": lambda: GridMatrix(_codes(-32, 31), Affine(_products(32, 16, 127))),
}


def _read(matrix: GridMatrix, name: str) -> Tensor:
    kind = next(kind for kind in BLOCK_TYPES if kind.name == name)
    return torch.from_numpy(np.array(gguf.dequantize(packed(matrix, kind), gguf.GGMLQuantizationType[name])))


def test_every_type_is_tried() -> None:
    assert {kind.name for kind in BLOCK_TYPES} == set(MATRICES)
    assert [kind.bits for kind in BLOCK_TYPES] == sorted(kind.bits for kind in BLOCK_TYPES)


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_of_a_types_own_form_is_held_to_the_bit(name: str) -> None:
    matrix = MATRICES[name]()
    kind = type_of(matrix)
    assert kind is not None and kind.name == name
    assert torch.equal(_read(matrix, name), matrix.values())


@pytest.mark.parametrize(("group", "blocks"), [(64, 8), (128, 4), (512, 1)])
def test_larger_groups_are_several_blocks_with_one_scale(group: int, blocks: int) -> None:
    matrix = GridMatrix(_codes(-8, 7), Affine(_halves(blocks)))
    kind = type_of(matrix)
    assert matrix.group == group and kind is not None and kind.name == "Q4_0"
    assert torch.equal(_read(matrix, "Q4_0"), matrix.values())


@pytest.mark.parametrize(("bits", "name"), [(3, "Q4_0"), (4, "Q5_0"), (6, "Q8_0")])
def test_zero_points_become_integers_around_zero(bits: int, name: str) -> None:
    scales = _halves(4)
    zeros = torch.randint(0, 1 << bits, scales.shape, generator=_generator()).float()
    zeros[0, 0] = 0.0
    zeros[0, 1] = float((1 << bits) - 1)
    matrix = GridMatrix(_codes(0, (1 << bits) - 1), Affine(scales, -zeros * scales))
    kind = type_of(matrix)
    assert kind is not None and kind.name == name
    # The product of a whole number and a scale is exact either way.
    assert torch.equal(_read(matrix, name), matrix.values())


def test_the_scale_of_zeros_does_not_matter() -> None:
    codes, scales = _codes(-8, 7), _halves(16)
    codes[2, :32] = 0
    scales[2, 0] = 1.2e-38
    kind = type_of(GridMatrix(codes, Affine(scales)))
    assert kind is not None and kind.name == "Q4_0"
    codes[2, 5] = 1
    assert type_of(GridMatrix(codes, Affine(scales))) is None


def test_what_no_type_holds_is_not_held() -> None:
    fine = _halves(16) + 1e-6
    assert type_of(GridMatrix(_codes(-8, 7), Affine(fine))) is None
    assert type_of(GridMatrix(_codes(0, 15), Affine(_halves(16), -fine))) is None
    large = torch.full((ROWS, 16), 1e5)
    assert type_of(GridMatrix(_codes(-8, 7), Affine(large))) is None
    # 16 values a group with scales that are not products of eight bits.
    assert type_of(GridMatrix(_codes(-32, 31), Affine(_halves(32)))) is None


def test_six_bits_need_rows_of_whole_blocks_of_256() -> None:
    whole = MATRICES["Q4_K"]()
    part = GridMatrix(whole.codes[:, :288].contiguous(), whole.affine)
    minimums = whole.affine.minimums
    assert minimums is not None
    part = GridMatrix(part.codes, Affine(whole.affine.scales[:, :9], minimums[:, :9]))
    assert part.group == 32 and type_of(part) is None


def test_rows_change_places_with_their_scales() -> None:
    matrix = MATRICES["Q4_1"]()
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    assert torch.equal(matrix.with_rows(order).values(), matrix.values()[order])


def test_a_large_matrix_is_packed_in_parts() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-8, 8, (9000, WIDTH), generator=generator, dtype=torch.int8)
    matrix = GridMatrix(codes, Affine(_halves(16).repeat(1500, 1)))
    assert len(list(matrix.parts())) > 1
    assert torch.equal(_read(matrix, "Q4_0"), matrix.values())
