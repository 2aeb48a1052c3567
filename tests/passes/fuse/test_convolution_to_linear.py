"""Convolutions along time as linear layers: the same numbers, for strides, paddings and widths."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.fuse.convolution_to_linear import ConvolutionToLinear

aten = torch.ops.aten
# Another order of float32 sums over at most 21 products.
TOLERANCE = 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 1, "stride": 2},
        {"kernel_size": 7, "stride": 3, "bias": False},
        {"kernel_size": 1},
        {"kernel_size": 3, "dilation": 2, "padding": 2},
    ],
)
@pytest.mark.parametrize("length", [20, 21])
def test_the_numbers_stay(options: dict[str, int], length: int) -> None:
    torch.manual_seed(0)
    module, x = nn.Conv1d(3, 5, **options), torch.randn(1, 3, length)  # type: ignore[arg-type]
    program = run_passes(capture_module(module, (x,)), [ConvolutionToLinear()])
    assert not nodes_of(program.graph, aten.conv1d.default) and len(nodes_of(program.graph, aten.linear.default)) == 1
    with torch.no_grad():
        torch.testing.assert_close(program.graph(x)[0], module(x), atol=TOLERANCE, rtol=0)


def test_grouped_convolutions_stay() -> None:
    module, x = nn.Conv1d(4, 4, 3, groups=2), torch.randn(1, 4, 9)
    program = run_passes(capture_module(module, (x,)), [ConvolutionToLinear()])
    assert len(nodes_of(program.graph, aten.conv1d.default)) == 1
