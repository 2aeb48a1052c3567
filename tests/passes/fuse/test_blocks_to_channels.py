"""Blocks of a convolution's input as channels: the same numbers, and what is left as it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import run_pass
from edgec.passes.fuse.blocks_to_channels import BlocksToChannels
from edgec.passes.graph.convolution_call import convolutions

REWRITTEN: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = {
    "sound": (nn.Conv1d(1, 6, 16, 4), (1, 1, 64), (6, 4, 4)),
    "values left over": (nn.Conv1d(2, 6, 8, 4, bias=False), (2, 2, 63), (6, 8, 2)),
    "a column": (nn.Conv2d(1, 5, (16, 1), (4, 1)), (1, 1, 64, 1), (5, 4, 4, 1)),
    "a row": (nn.Conv2d(3, 5, (3, 6), (1, 2), (1, 0)), (1, 3, 7, 20), (5, 6, 3, 3)),
}
LEFT: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "one step a block": (nn.Conv1d(1, 6, 4, 4), (1, 1, 64)),
    "no whole steps": (nn.Conv1d(1, 6, 10, 4), (1, 1, 64)),
    "padded": (nn.Conv1d(1, 6, 8, 4, 2), (1, 1, 64)),
    "dilated": (nn.Conv1d(1, 6, 8, 4, dilation=2), (1, 1, 64)),
    "many channels": (nn.Conv1d(8, 6, 8, 4), (1, 8, 64)),
    "in groups": (nn.Conv1d(2, 6, 8, 4, groups=2), (1, 2, 64)),
    "step of one": (nn.Conv1d(1, 6, 8), (1, 1, 64)),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_numbers_stay_the_same(name: str) -> None:
    module, shape, weight = REWRITTEN[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    program = run_pass(capture_module(module, (x,)), BlocksToChannels())
    (call,) = convolutions(program.graph)
    assert tuple(call.weight.meta["val"].shape) == weight and str(call.weight.target) == "weight"
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)


@pytest.mark.long
@pytest.mark.parametrize("name", LEFT)
def test_others_are_left(name: str) -> None:
    module, shape = LEFT[name]
    program = capture_module(module, (torch.randn(shape),))
    after = run_pass(program, BlocksToChannels())
    assert [str(node) for node in after.graph.graph.nodes] == [str(node) for node in program.graph.graph.nodes]
