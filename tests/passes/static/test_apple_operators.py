from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.static.apple_operators import AppleOperators
from tests.passes.static.test_merge_dimensions import program_of

aten = torch.ops.aten


class Stretched(nn.Module):
    def __init__(self, **asked: Any) -> None:
        super().__init__()
        self.asked = asked

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.interpolate(x, mode="linear", **self.asked)


def spread(module: nn.Module) -> nn.Module:
    """Weights and statistics that differ from channel to channel, as trained ones do."""
    torch.manual_seed(0)
    for value in (*module.parameters(), *(each for each in module.buffers() if each.is_floating_point())):
        nn.init.uniform_(value, 0.1, 0.9)
    return module.eval()


WRITTEN: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "instance 1d": (nn.InstanceNorm1d(6, affine=True), (2, 6, 9)),
    "instance 2d": (nn.InstanceNorm2d(6), (2, 6, 4, 5)),
    "instance 3d": (nn.InstanceNorm3d(6, affine=True), (1, 6, 3, 4, 5)),
    "instance with statistics": (nn.InstanceNorm1d(6, affine=True, track_running_stats=True), (2, 6, 9)),
    "slopes of vectors": (nn.PReLU(6), (2, 6)),
    "slopes of sequences": (nn.PReLU(6), (2, 6, 9)),
    "slopes of volumes": (nn.PReLU(6), (1, 6, 3, 4, 5)),
    "stretched": (Stretched(size=23), (2, 6, 9)),
    "stretched to its corners": (Stretched(size=23, align_corners=True), (2, 6, 9)),
    "stretched by a factor": (Stretched(scale_factor=2.5), (2, 6, 9)),
    "shortened": (Stretched(size=4), (2, 6, 9)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_they_refuse_is_written_otherwise(name: str) -> None:
    module, shape = WRITTEN[name]
    x = torch.randn(*shape)
    program = run_pass(program_of(spread(module), x), RemoveNoops())
    written = run_pass(program, AppleOperators())
    refused = (aten.instance_norm.default, aten.prelu.default, aten.upsample_linear1d.vec)
    assert nodes_of(program.graph, *refused) and not nodes_of(written.graph, *refused)
    # The same sums, in another order where there is a mean.
    torch.testing.assert_close(written.graph(x), program.graph(x), rtol=0, atol=2e-6)


def test_slopes_of_images_are_written_where_they_are_asked_for() -> None:
    x = torch.randn(2, 6, 4, 5)
    program = program_of(spread(nn.PReLU(6)), x)
    written = run_pass(program, AppleOperators(images_too=True))
    assert not nodes_of(written.graph, aten.prelu.default) and torch.equal(written.graph(x), program.graph(x))


def test_infinities_keep_their_slopes() -> None:
    x = torch.tensor([[float("inf"), float("-inf"), -0.0]])
    program = program_of(spread(nn.PReLU(3)), x)
    assert torch.equal(run_pass(program, AppleOperators()).graph(x), program.graph(x))


@pytest.mark.parametrize(("module", "shape"), [(nn.PReLU(6), (2, 6, 4, 5)), (nn.PReLU(1), (2, 6)), (nn.PReLU(1), (7,))])
def test_what_they_take_stays(module: nn.Module, shape: tuple[int, ...]) -> None:
    written = run_pass(program_of(spread(module), torch.randn(*shape)), AppleOperators())
    assert len(nodes_of(written.graph, aten.prelu.default)) == 1
