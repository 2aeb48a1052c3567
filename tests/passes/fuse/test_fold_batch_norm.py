"""Batch norms inside weights: the same numbers, and norms that stay where they are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.fuse.fold_batch_norm import NORM, FoldBatchNorm
from tests.convolving import made, trained

FOLDED = {
    "conv2d": (lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)), (2, 3, 8, 8)),
    "conv1d without bias": (lambda: nn.Sequential(nn.Conv1d(3, 6, 3, bias=False), nn.BatchNorm1d(6)), (2, 3, 9)),
    "depthwise": (lambda: nn.Sequential(nn.Conv2d(6, 6, 3, groups=6), nn.BatchNorm2d(6)), (2, 6, 8, 8)),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 6, 3), nn.BatchNorm2d(6)), (2, 3, 5, 5)),
    "transposed in groups": (
        lambda: nn.Sequential(nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)),
        (2, 4, 5),
    ),
    "linear": (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), (3, 4)),
    "without factors": (lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, affine=False)), (2, 3, 8, 8)),
}


def folded(module: nn.Module, x: Tensor, left: int) -> None:
    program = run_passes(capture_module(module, (x,)), [RemoveNoops()])
    after = run_passes(program, [FoldBatchNorm()])
    assert len(nodes_of(after.graph, NORM)) == left
    with torch.no_grad():
        # A product more and a sum less for each value.
        torch.testing.assert_close(after.graph(x)[0], program.graph(x)[0], atol=2e-6, rtol=1e-5)
    again = run_passes(after, [FoldBatchNorm()])
    assert [str(node) for node in again.graph.graph.nodes] == [str(node) for node in after.graph.graph.nodes]


@pytest.mark.parametrize("name", FOLDED)
def test_a_norm_is_folded_into_what_it_follows(name: str) -> None:
    make, shape = FOLDED[name]
    torch.manual_seed(0)
    module = make()  # type: ignore[no-untyped-call]
    for each in module.modules():
        if isinstance(each, nn.BatchNorm1d | nn.BatchNorm2d) and not each.affine:
            assert each.running_mean is not None
            nn.init.normal_(each.running_mean)
    folded(module.eval() if "factors" in name else trained(module), torch.randn(shape), 0)


class Twice(nn.Module):
    """A convolution that a norm and something else read, and one weight in two convolutions with norms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.first, self.second = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.conv(x)
        result: Tensor = self.first(seen) + seen + self.second(self.conv(x + 1))
        return result


def test_a_value_that_others_read_and_a_shared_weight_stay() -> None:
    torch.manual_seed(0)
    folded(trained(Twice()), torch.randn(1, 3, 4, 4), 1)


def test_a_norm_after_a_relu_stays() -> None:
    module, ((x,), *_) = made("pitch")
    folded(module, x, 2)


def test_the_parameters_keep_their_names() -> None:
    module = trained(nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)))
    program = run_passes(capture_module(module, (torch.zeros(1, 3, 8, 8),)), [RemoveNoops(), FoldBatchNorm()])
    names = {str(node.target) for node in program.graph.graph.nodes if node.op == "get_attr"}
    assert {name.rpartition(".")[2] for name in names} == {"weight", "bias"} and len(names) == 2
