"""Pixel shuffles through XNNPACK: the same values, behind images that were made of rows."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import lower
from edgec.backends.cpu.rewrites.pixel_shuffle import write_out_pixel_shuffles
from edgec.backends.cpu.static_lowering import lower_static
from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import clone, nodes_of
from edgec.runtime_py.engines.open_artifact import TorchMethod

X = torch.randn(1, 64, 4, generator=torch.Generator().manual_seed(0))
SHUFFLE = torch.ops.aten.pixel_shuffle.default


class _Enlarged(nn.Module):
    """Swin2SR's end: rows [B, H * W, C] as an image, enlarged between two convolutions, and its mean colour."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.factor = factor
        self.before, self.after = nn.Conv2d(4, 4 * factor**2, 3, padding=1), nn.Conv2d(4, 3, 3, padding=1)
        self.mean = nn.Buffer(torch.randn(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        image = self.before(x.transpose(1, 2).view(1, 4, 8, 8))
        result: Tensor = self.after(F.pixel_shuffle(image, self.factor)) / 2.0 + self.mean
        return result


@pytest.mark.parametrize("factor", [2, 3])
def test_the_values_stay(factor: int) -> None:
    module = _Enlarged(factor).eval()
    graph = clone(capture_module(module, (X,)).graph)
    assert len(nodes_of(graph, SHUFFLE)) == 1
    write_out_pixel_shuffles(graph)
    graph.recompile()
    assert not nodes_of(graph, SHUFFLE)
    # The convolution after it may read another order in memory, and sum in another order.
    torch.testing.assert_close(graph(X)[0], module(X), atol=1e-6, rtol=0)


@pytest.mark.long
def test_the_artifact_with_our_kernels_computes_it(tmp_path: Path) -> None:
    module = _Enlarged(2).eval()
    lowered = lower(capture_module(module, (X,)), block_rows=BlockRows.of(platform.machine()))
    (tmp_path / "model.pte").write_bytes(lowered.artifact)
    # float32 through two convolutions.
    torch.testing.assert_close(TorchMethod(tmp_path / "model.pte")([X])[0], module(X), atol=1e-5, rtol=0)


@pytest.mark.long
def test_the_artifact_computes_it(tmp_path: Path) -> None:
    module = _Enlarged(2).eval()
    lowered = lower_static(capture_module(module, (X,)))
    (tmp_path / "model.pte").write_bytes(lowered.artifact)
    assert not any("dim_order" in each.operator for each in lowered.outside)
    # float32 through two convolutions.
    torch.testing.assert_close(TorchMethod(tmp_path / "model.pte")([X])[0], module(X), atol=1e-5, rtol=0)
