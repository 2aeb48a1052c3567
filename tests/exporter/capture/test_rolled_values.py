"""Rolled values have the values of torch's roll, and no operator of that name is left."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module


class Rolls(nn.Module):
    """A module that rolls its input, as windows of Swin are."""

    def __init__(self, shifts: tuple[int, ...], dims: tuple[int, ...]) -> None:
        super().__init__()
        self.shifts, self.dims = shifts, dims

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x.roll(self.shifts, self.dims)


@pytest.mark.parametrize(
    ("shifts", "dims"), [((-2,), (-1,)), ((3,), (1,)), ((-1, 2), (1, 2)), ((11,), (2,)), ((5, 0), (2, 1))]
)
def test_rolled_values_are_torchs(shifts: tuple[int, ...], dims: tuple[int, ...]) -> None:
    module, x = Rolls(shifts, dims), torch.arange(40.0).reshape(2, 4, 5)
    graph = capture_module(module, (x,)).graph
    assert torch.equal(graph(x)[0], module(x))
    assert torch.ops.aten.roll.default not in {node.target for node in graph.graph.nodes}
