"""PReLU at every rank through XNNPACK, as face detectors have it behind convolutions and linear layers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.cpu.rewrites.slopes import write_out_slopes
from edgec.backends.cpu.static_lowering import lower_static
from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import clone, nodes_of
from edgec.runtime_py.engines.open_artifact import TorchMethod

PRELU = torch.ops.aten.prelu.default


def sloped(channels: int) -> nn.PReLU:
    module = nn.PReLU(channels)
    nn.init.uniform_(module.weight, 0.1, 0.5)
    return module


class Detector(nn.Module):
    """What MTCNN's nets are made of: images with slopes, transposed, then vectors with slopes."""

    def __init__(self) -> None:
        super().__init__()
        self.images = nn.Sequential(nn.Conv2d(3, 8, 3), sloped(8), nn.MaxPool2d(3, 2, ceil_mode=True))
        self.vectors = nn.Sequential(nn.Linear(8 * 5 * 5, 16), sloped(16))
        self.scores, self.boxes = nn.Linear(16, 2), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        vector = self.vectors(self.images(x).permute(0, 3, 2, 1).flatten(1))
        return self.boxes(vector), self.scores(vector).softmax(1)


def executed(module: nn.Module, x: Tensor, folder: Path) -> list[Tensor]:
    lowered = lower_static(capture_module(module.eval(), (x,)))
    (folder / "model.pte").write_bytes(lowered.artifact)
    return list(TorchMethod(folder / "model.pte")((x,)))


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize("shape", [(1, 16), (1, 16, 12), (1, 16, 4, 5), (1, 16, 2, 3, 4)])
@pytest.mark.parametrize("channels", [pytest.param(1, marks=pytest.mark.slow), 16])
def test_slopes_of_any_rank_are_lowered(shape: tuple[int, ...], channels: int, tmp_path: Path) -> None:
    module, x = sloped(channels), torch.randn(shape, generator=torch.Generator().manual_seed(0))
    # One product a value.
    torch.testing.assert_close(executed(module, x, tmp_path)[0], module(x), atol=1e-6, rtol=0)


@pytest.mark.long
def test_a_face_detector_is_lowered(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Detector(), torch.randn(1, 3, 12, 12)
    with torch.no_grad():
        wanted = module(x)
    for got, own in zip(executed(module, x, tmp_path), wanted, strict=True):
        # Sums of 200 products in another order.
        torch.testing.assert_close(got, own, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("shape", "left"), [((1, 16), 0), ((1, 16, 4, 5), 1)])
def test_only_images_keep_the_operator(shape: tuple[int, ...], left: int) -> None:
    graph = clone(capture_module(sloped(16), (torch.zeros(shape),)).graph)
    write_out_slopes(graph)
    assert len(nodes_of(graph, PRELU)) == left
