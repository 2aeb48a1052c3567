"""A convolution over patches as a linear layer: the same numbers, and what is left alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.patches_to_linear import PatchesToLinear

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv2d.default, aten.conv2d.padding, aten.conv3d.default)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"padding": "valid"}])
def test_the_numbers_stay(options: dict[str, object], dtype: torch.dtype) -> None:
    module = nn.Conv2d(3, 10, (4, 2), stride=(4, 2), **options).to(dtype).float()  # type: ignore[arg-type]
    x = torch.randn(1, 3, 12, 8, generator=torch.Generator().manual_seed(0))
    program = capture_module(module, (x,))
    rewritten = run_pass(program, PatchesToLinear())
    assert not nodes_of(rewritten.graph, *CONVOLUTIONS) and nodes_of(rewritten.graph, aten.linear.default)
    # The same 24 products in another order.
    torch.testing.assert_close(rewritten.graph(x)[0], module(x), atol=1e-5, rtol=0)
    assert len(run_pass(rewritten, PatchesToLinear()).graph.graph.nodes) == len(rewritten.graph.graph.nodes)


@pytest.mark.parametrize(
    "options", [{"stride": 3}, {"stride": 4, "padding": 1}, {"stride": 4, "groups": 3}, {"stride": 4, "dilation": 2}]
)
def test_other_convolutions_are_left_alone(options: dict[str, int]) -> None:
    program = capture_module(nn.Conv2d(3, 6, 4, **options), (torch.zeros(1, 3, 12, 12),))  # type: ignore[arg-type]
    assert nodes_of(run_pass(program, PatchesToLinear()).graph, *CONVOLUTIONS)


@pytest.mark.parametrize("shape", [(2, 3, 12, 12), (1, 3, 13, 12)])
def test_several_images_and_a_rest_at_the_edge_are_left_alone(shape: tuple[int, ...]) -> None:
    program = capture_module(nn.Conv2d(3, 6, 4, stride=4), (torch.zeros(shape),))
    assert nodes_of(run_pass(program, PatchesToLinear()).graph, *CONVOLUTIONS)


@pytest.mark.parametrize("bias", [True, False])
def test_patches_of_several_frames_are_rows_of_a_linear_layer(bias: bool) -> None:
    module = nn.Conv3d(3, 10, (2, 4, 4), stride=(2, 4, 4), bias=bias)
    x = torch.randn(6, 3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    rewritten = run_pass(capture_module(module, (x,)), PatchesToLinear())
    assert not nodes_of(rewritten.graph, *CONVOLUTIONS) and nodes_of(rewritten.graph, aten.linear.default)
    # The same 96 products in another order.
    torch.testing.assert_close(rewritten.graph(x)[0], module(x), atol=1e-5, rtol=0)


@pytest.mark.parametrize("options", [{"padding": 1}, {"groups": 3}, {"kernel_size": (1, 4, 4)}])
def test_convolutions_of_more_than_one_patch_are_left_alone(options: dict[str, object]) -> None:
    module = nn.Conv3d(3, 6, **{"kernel_size": (2, 4, 4), **options})  # type: ignore[arg-type]
    program = capture_module(module, (torch.zeros(6, 3, 2, 4, 4),))
    assert nodes_of(run_pass(program, PatchesToLinear()).graph, *CONVOLUTIONS)


@pytest.mark.parametrize(("kernel", "left"), [(1, 1), (4, 0)])
def test_points_are_left_where_asked(kernel: int, left: int) -> None:
    program = capture_module(nn.Conv2d(3, 4, kernel, stride=kernel), (torch.randn(1, 3, 8, 8),))
    assert len(nodes_of(run_pass(program, PatchesToLinear(points=False)).graph, *CONVOLUTIONS)) == left
