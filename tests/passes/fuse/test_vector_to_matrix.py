"""Linear layers with a vector: the same numbers, also from the executed artifact, and others left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgec.backends.cpu.static_lowering import lower_static
from edgec.exporter.capture.module import capture_module
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.fuse.vector_to_matrix import VectorToMatrix
from edgec.runtime_py.engines.open_artifact import TorchMethod

aten = torch.ops.aten


class Mean(nn.Module):
    """The mean over the bins of distributions, as D-FINE writes it: its bins are computed from a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Parameter(torch.tensor([1.5]))

    def forward(self, x: Tensor) -> Tensor:
        bins = torch.cat([self.step**power for power in range(6)], 0)
        return F.linear(F.softmax(x.reshape(-1, 6), dim=1), bins).reshape(-1, 4)


def test_a_vector_is_a_matrix_of_one_row() -> None:
    module, x = Mean().eval(), torch.randn(1, 3, 24, generator=torch.Generator().manual_seed(0))
    program = run_passes(capture_module(module, (x,)), [VectorToMatrix(), FoldConstants()])
    (layer,) = nodes_of(program.graph, aten.linear.default)
    assert layer.all_input_nodes[1].op == "get_attr" and layer.meta["val"].shape == (12, 1)
    # Six products in another order.
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)
    again = run_passes(program, [VectorToMatrix()])
    assert len(again.graph.graph.nodes) == len(program.graph.graph.nodes)


@pytest.mark.long
def test_the_artifact_computes_it(tmp_path: Path) -> None:
    module, x = Mean().eval(), torch.randn(1, 3, 24, generator=torch.Generator().manual_seed(0))
    program = run_passes(capture_module(module, (x,)), [VectorToMatrix(), FoldConstants()])
    (tmp_path / "model.pte").write_bytes(lower_static(program).artifact)
    # float32, summed in another order.
    torch.testing.assert_close(TorchMethod(tmp_path / "model.pte")([x])[0], module(x), atol=1e-5, rtol=0)


def test_matrices_are_left_alone() -> None:
    program = capture_module(nn.Linear(4, 1), (torch.randn(2, 4),))
    assert not nodes_of(run_passes(program, [VectorToMatrix()]).graph, aten.squeeze.dim)
