"""``edgec::experts``: what it means, its shapes, its gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgec.ir.experts import EXPERTS


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


INDEX = torch.tensor([[0, 3], [3, 1], [2, 2]])


@pytest.mark.parametrize("rows", [1, 2])
def test_each_row_is_multiplied_by_its_own_expert(rows: int) -> None:
    x, weight, bias = drawn(3, rows, 5), drawn(4, 6, 5, seed=1), drawn(4, 6, seed=2)
    out = EXPERTS(x, INDEX, weight, bias)
    assert out.shape == (3, 2, 6)
    for token in range(3):
        for choice in range(2):
            expert = int(INDEX[token, choice])
            wanted = weight[expert] @ x[token, choice % rows] + bias[expert]
            # Two orders of five float32 additions.
            assert torch.allclose(out[token, choice], wanted, rtol=1e-5, atol=1e-6)


def test_a_choice_that_is_no_expert_gives_zeros() -> None:
    index = torch.tensor([[0, 4], [-1, 1], [2, 99]])
    out = EXPERTS(drawn(3, 1, 5), index, drawn(4, 6, 5), drawn(4, 6))
    assert not out[0, 1].any() and not out[1, 0].any() and not out[2, 1].any()
    assert out[0, 0].any() and out[1, 1].any() and out[2, 0].any()


def test_only_chosen_experts_are_read() -> None:
    weight = drawn(4, 6, 5)
    wanted = EXPERTS(drawn(2, 1, 5), INDEX[:2], weight, None)
    weight[2] = torch.nan
    assert torch.equal(EXPERTS(drawn(2, 1, 5), INDEX[:2], weight, None), wanted)


def test_gradients_reach_inputs_weights_and_biases() -> None:
    inputs = [drawn(3, 1, 5).double(), INDEX, drawn(4, 6, 5).double(), drawn(4, 6).double()]
    for tensor in (inputs[0], inputs[2], inputs[3]):
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(EXPERTS, inputs)


def test_the_operator_is_registered_as_torch_wants_it() -> None:
    torch.library.opcheck(EXPERTS, (drawn(3, 1, 5), INDEX, drawn(4, 6, 5), None))
