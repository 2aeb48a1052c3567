from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.passes.cleanup.plain_operators import PlainOperators
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass, run_passes
from tests.passes.static.test_merge_dimensions import program_of

LEFT = ("einsum", "im2col", "_like", "multiply", "divide", "subtract", "negative", "absolute")


class Renamed(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        apart = torch.multiply(torch.subtract(x, y, alpha=2), y.absolute().negative())
        return torch.true_divide(torch.divide(torch.divide(apart, 3.0), y, rounding_mode="floor"), x)


class Summed(nn.Module):
    """An Einstein sum of two tensors, or of one."""

    def __init__(self, equation: str, count: int) -> None:
        super().__init__()
        self.equation, self.count = equation, count

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum(self.equation, *(x, y)[: self.count])


class Windows(nn.Module):
    """What ``torch.nn.functional.unfold`` cuts out: kernel, dilation, padding and stride."""

    def __init__(self, *asked: Any) -> None:
        super().__init__()
        self.asked = asked

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.unfold(x, *self.asked)


class Masked(nn.Module):
    """Scores that are left out where a mask says so, as Mask2Former makes them of the mask."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        hidden = x < y
        left_out = torch.zeros_like(hidden, dtype=x.dtype).masked_fill(hidden, -4e4)
        return left_out + torch.ones_like(hidden, dtype=x.dtype) * torch.full_like(hidden, 2.5, dtype=x.dtype)


@pytest.mark.parametrize(
    ("model", "x", "y"),
    [
        (Renamed(), (2, 5), (2, 5)),
        (Masked(), (2, 5), (2, 5)),
        # OWL-ViT's classes of patches, MaskFormer's masks, what is weighted by rows, diagonals.
        (Summed("...pd,...qd->...pq", 2), (1, 6, 8), (1, 3, 8)),
        (Summed("bqc,bchw->bqhw", 2), (1, 4, 8), (1, 8, 3, 5)),
        (Summed("bij,bkij->bk", 2), (2, 3, 4), (2, 5, 3, 4)),
        (Summed("bii->bi", 1), (2, 4, 4), (1,)),
        # ConvBERT's windows of a text, then of an image with gaps and steps.
        (Windows((9, 1), 1, (4, 0), 1), (1, 6, 12, 1), (1,)),
        (Windows((3, 2), (2, 1), (1, 0), (2, 3)), (2, 3, 9, 8), (1,)),
        (Windows((3, 2), (2, 1), (1, 0), (2, 3)), (3, 9, 8), (1,)),
    ],
)
def test_the_same_is_computed_by_other_operators(model: nn.Module, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    inputs = (torch.randn(x), torch.randn(y))
    program = program_of(model, *inputs)
    plain = run_pass(program, PlainOperators())
    assert torch.equal(plain.graph(*inputs), program.graph(*inputs))
    targets = {str(node.target) for node in plain.graph.graph.nodes if node.op == "call_function"}
    assert targets and not any(name in target for target in targets for name in LEFT)
    values = [node.meta["val"].shape for node in plain.graph.graph.nodes if node.op == "call_function"]
    assert values[-1] == program.graph(*inputs).shape


class Attention(nn.Module):
    """Scores of heads whose copies, which ``RemoveNoops`` takes away, made the strides that views need."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k = (each.view(2, 5, 2, 4).transpose(1, 2).contiguous() * 0.5 for each in (x, y))
        return torch.einsum("bhqd,bhkd->bhqk", q, k)


def test_a_sum_does_not_depend_on_copies_that_were_removed() -> None:
    inputs = (torch.randn(2, 5, 8), torch.randn(2, 5, 8))
    program = program_of(Attention(), *inputs)
    plain = run_passes(program, [RemoveNoops(), PlainOperators()])
    assert not nodes_of(plain.graph, torch.ops.aten.contiguous.default)
    torch.testing.assert_close(plain.graph(*inputs), program.graph(*inputs), rtol=0, atol=1e-6)


def test_what_is_filled_in_the_type_that_it_has_anyway_stays() -> None:
    x = torch.randn(2, 3)
    program = program_of(Ones(), x)
    assert nodes_of(run_pass(program, PlainOperators()).graph, torch.ops.aten.ones_like.default)


class Ones(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ones_like(x).cumsum(1) * x


class Numbers(nn.Module):
    """What is left of a tensor with NaN and infinities."""

    def __init__(self, *numbers: float, **named: Any) -> None:
        super().__init__()
        self.numbers, self.named = numbers, named

    def forward(self, x: Tensor) -> Tensor:
        return torch.nan_to_num(x, *self.numbers, **self.named)


@pytest.mark.parametrize("module", [Numbers(), Numbers(0.5), Numbers(0.0, 9.0, -9.0), Numbers(posinf=7.0)])
def test_what_is_not_a_number_is_filled(module: nn.Module) -> None:
    x = torch.tensor([[1.0, torch.nan, torch.inf, -torch.inf, -3.0, 1e30]])
    plain = run_pass(program_of(module, x), PlainOperators())
    assert not nodes_of(plain.graph, torch.ops.aten.nan_to_num.default)
    assert torch.equal(plain.graph(x), module(x))
