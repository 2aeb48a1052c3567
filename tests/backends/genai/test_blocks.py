"""Packed blocks hold the integers that they are made of, and the operators mean what the graph's form means."""

from __future__ import annotations

import pytest
import torch

from edgec.backends.genai.blocks import block_matmul, block_rows, pack, unpack


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32, 64])
def test_packed_integers_come_back(bits: int, block: int) -> None:
    half = 1 << bits - 1
    integers = torch.randint(-half, half, (5, 128), dtype=torch.int8)
    packed = pack(integers, bits, block)
    assert packed.dtype == torch.uint8 and packed.shape == (5, 128 // block, block * bits // 8)
    assert torch.equal(unpack(packed, bits).flatten(1), integers.float())


def test_the_first_of_two_integers_lies_in_the_low_bits() -> None:
    assert pack(torch.tensor([[-8, 7] * 8], dtype=torch.int8), 4, 16).flatten().tolist() == [0xF0] * 8


def test_a_product_is_that_of_the_dequantised_matrix() -> None:
    integers, scales, x = torch.randint(-8, 8, (6, 64)), torch.rand(6, 2), torch.randn(1, 3, 64)
    weight = (integers.unflatten(1, (2, 32)) * scales.unsqueeze(-1)).flatten(1)
    packed = pack(integers, 4, 32)
    assert torch.allclose(block_matmul(x, packed, scales, 4, False), x @ weight.t(), atol=1e-5)
    step = x.unflatten(-1, (2, 32)).abs().amax(-1, keepdim=True) / 127
    rounded = ((x.unflatten(-1, (2, 32)) / step).round() * step).flatten(-2)
    assert torch.allclose(block_matmul(x, packed, scales, 4, True), rounded @ weight.t(), atol=1e-4)


def test_rows_are_those_of_the_dequantised_table() -> None:
    integers, scales, ids = torch.randint(-128, 128, (9, 64)), torch.rand(9, 2), torch.tensor([[3, 0, 8]])
    table = (integers.unflatten(1, (2, 32)) * scales.unsqueeze(-1)).flatten(1)
    assert torch.equal(block_rows(pack(integers, 8, 32), scales, ids, 8), table[ids])
