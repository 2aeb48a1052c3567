from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.passes.contract import run_pass
from edgec.passes.static.five_dimensions import FiveDimensions
from tests.passes.static.test_merge_dimensions import program_of, ranks


class Places(nn.Module):
    """The points that deformable attention looks at: query, head, level, point, coordinate."""

    def forward(self, x: Tensor, boxes: Tensor) -> Tensor:
        offsets = x.view(1, 5, 2, 3, 4, 2)
        places = boxes[:, :, None, :, None, :2] + offsets / 4 * boxes[:, :, None, :, None, 2:] * 0.5
        return torch.cat([(2 * places - 1)[:, :, :, level].transpose(1, 2).flatten(0, 1) for level in range(3)])


class Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(1, 5, 2, 3, 4, 2).exp().permute(5, 4, 3, 2, 1, 0)


class Pooled(nn.Module):
    """As Hiera pools its units: the largest of six dimensions, by an operator of two outputs; or which it is."""

    def __init__(self, dim: int = 3, output: int = 0) -> None:
        super().__init__()
        self.dim, self.output = dim, output

    def forward(self, x: Tensor) -> Tensor:
        return x.view(1, 5, 2, 3, 4, 2).max(self.dim)[self.output]


def test_points_are_placed_in_five_dimensions() -> None:
    inputs = (torch.randn(1, 5, 48), torch.rand(1, 5, 3, 4))
    program = program_of(Places(), *inputs)
    assert max(ranks(program)) == 6
    shorter = run_pass(program, FiveDimensions())
    assert max(ranks(shorter)) == 5
    assert torch.equal(shorter.graph(*inputs), program.graph(*inputs))
    assert len(ranks(run_pass(shorter, FiveDimensions()))) == len(ranks(shorter))


@pytest.mark.parametrize("model", [Pooled(), Pooled(dim=-2)])
def test_units_are_pooled_in_five_dimensions(model: nn.Module) -> None:
    x = torch.randn(1, 5, 48)
    program = program_of(model, x)
    assert max(ranks(program)) == 6
    shorter = run_pass(program, FiveDimensions())
    assert max(ranks(shorter)) == 5 and torch.equal(shorter.graph(x), program.graph(x))


class Joined(nn.Module):
    """Six dimensions whose first is no longer 1: joined with the next, or repeated."""

    def __init__(self, repeated: bool) -> None:
        super().__init__()
        self.repeated = repeated

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(1, 5, 2, 3, 4, 2).exp()
        return x.expand(4, 5, 2, 3, 4, 2).sum(0) if self.repeated else x.view(5, 2, 3, 2, 2, 2).sum(1)


@pytest.mark.parametrize("model", [Turned(), Pooled(dim=0), Pooled(output=1), Joined(False), Joined(True)])
def test_what_another_operator_reads_stays(model: nn.Module) -> None:
    x = torch.randn(1, 5, 48)
    program = program_of(model, x)
    left = run_pass(program, FiveDimensions())
    assert max(ranks(left)) == 6
    assert torch.equal(left.graph(x), program.graph(x))
