"""Delegates whose sizes are computed from an input's length, executed in ExecuTorch's runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace

from edgec.backends.cpu.lower import lower
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import reexport
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.fuse.convolution_to_linear import ConvolutionToLinear
from edgec.runtime_py.engines.open_artifact import TorchMethod

# Sums of up to 20 products in another order.
TOLERANCE = 1e-6


class Sound(nn.Module):
    """Two convolutions over the samples of a sound, [1, N]."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 5, 7, stride=3), nn.Conv1d(5, 4, 4, stride=2)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.second(nn.functional.gelu(self.first(samples[:, None])))
        return made


@pytest.mark.long
def test_strided_layers_take_sounds_of_any_length(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, samples = Sound(), TensorType("samples", torch.float32, (1, Dynamic("N", 30, 400)))
    interface = Interface((samples,), (TensorType("made", torch.float32, (1, 4, Dynamic("M", 1, 65))),))
    traced = reexport(symbolic_trace(module), interface).module(check_guards=False)
    program = run_passes(Program(GraphModule(traced, traced.graph), interface), [ConvolutionToLinear()])
    assert len(nodes_of(program.graph, torch.ops.aten.linear.default)) == 2
    lowered = lower(program)
    assert lowered.delegation.backend == "xnnpack" and lowered.delegation.delegates == 2
    (tmp_path / "model.pte").write_bytes(lowered.artifact)
    method = TorchMethod(tmp_path / "model.pte")
    for length in (30, 31, 400, 33, 199):
        sound = torch.randn(1, length)
        with torch.no_grad():
            torch.testing.assert_close(method([sound])[0], module(sound), atol=TOLERANCE, rtol=0)
