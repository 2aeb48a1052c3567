"""Averages of neighbouring frames as means over rows: the same numbers, and what is left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.pool_to_mean import PoolToMean

aten = torch.ops.aten


@pytest.mark.parametrize("window", [2, 3])
def test_the_numbers_stay(window: int) -> None:
    module = nn.AvgPool1d(window, stride=window)
    x = torch.randn(1, 5, 12, generator=torch.Generator().manual_seed(0))
    rewritten = run_pass(capture_module(module, (x,)), PoolToMean())
    assert not nodes_of(rewritten.graph, aten.avg_pool1d.default)
    # The same few values are added, perhaps in another order.
    torch.testing.assert_close(rewritten.graph(x)[0], module(x), atol=1e-6, rtol=0)
    assert len(run_pass(rewritten, PoolToMean()).graph.graph.nodes) == len(rewritten.graph.graph.nodes)


@pytest.mark.parametrize(
    "module", [nn.AvgPool2d(640, ceil_mode=True), nn.AvgPool2d((3, 4)), nn.AvgPool2d((3, 9), ceil_mode=True)]
)
def test_a_window_over_the_whole_image_is_a_mean(module: nn.Module) -> None:
    x = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(0))
    rewritten = run_pass(capture_module(module, (x,)), PoolToMean())
    assert not nodes_of(rewritten.graph, aten.avg_pool2d.default)
    torch.testing.assert_close(rewritten.graph(x)[0], module(x), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "module, shape",
    [
        (nn.AvgPool2d((3, 2)), (1, 5, 3, 4)),
        (nn.AvgPool2d((5, 6), padding=(1, 1)), (1, 5, 3, 4)),
        (nn.AvgPool2d((3, 4), divisor_override=5), (1, 5, 3, 4)),
        (nn.AvgPool1d(2, stride=1), (1, 5, 12)),
        (nn.AvgPool1d(2, stride=2, padding=1), (1, 5, 12)),
        (nn.AvgPool1d(2, stride=2), (1, 5, 11)),
        (nn.AvgPool1d(2, stride=2), (2, 5, 12)),
    ],
)
def test_other_pools_are_left_alone(module: nn.Module, shape: tuple[int, ...]) -> None:
    program = capture_module(module, (torch.zeros(shape),))
    assert nodes_of(run_pass(program, PoolToMean()).graph, aten.avg_pool1d.default, aten.avg_pool2d.default)


def test_whole_numbers_are_left_alone() -> None:
    program = capture_module(nn.AvgPool2d(3), (torch.ones(1, 1, 3, 3, dtype=torch.int64),))
    assert nodes_of(run_pass(program, PoolToMean()).graph, aten.avg_pool2d.default)
