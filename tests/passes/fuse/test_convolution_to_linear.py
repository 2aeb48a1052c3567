"""Convolutions along time as linear layers: the same numbers, for strides, paddings and widths."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import reexport
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


class Waveform(nn.Module):
    """A convolution over the samples of a sound, [1, N]."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 5, 7, stride=3)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.convolution(samples[:, None])
        return made


@pytest.mark.long
def test_a_length_may_vary() -> None:
    torch.manual_seed(0)
    module, varying = Waveform(), Dynamic("N", 20, 400)
    made = TensorType("made", torch.float32, (1, 5, Dynamic("M", 1, 132)))
    interface = Interface((TensorType("samples", torch.float32, (1, varying)),), (made,))
    traced = reexport(symbolic_trace(module), interface).module(check_guards=False)
    program = run_passes(Program(GraphModule(traced, traced.graph), interface), [ConvolutionToLinear()])
    assert not nodes_of(program.graph, aten.conv1d.default) and len(nodes_of(program.graph, aten.linear.default)) == 1
    for length in (20, 21, 22, 399):
        samples = torch.randn(1, length)
        with torch.no_grad():
            wanted, got = module(samples), program.graph(samples)
        torch.testing.assert_close(got, wanted, atol=TOLERANCE, rtol=0)
