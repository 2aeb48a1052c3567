"""Maxima along a dimension through XNNPACK, with and without their places."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.cpu import static_lowering
from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import lower
from edgec.backends.cpu.rewrites.reduced_dimensions import keep_reduced_dimensions
from edgec.backends.cpu.static_lowering import lower_static
from edgec.exporter.capture.module import capture_module
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import clone, nodes_of, run_pass
from edgec.runtime_py.engines.open_artifact import TorchMethod

X = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(0))
MAX = torch.ops.aten.max.dim


class _Largest(nn.Module):
    def __init__(self, body: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


@pytest.mark.parametrize("kept", [True, False])
def test_the_values_stay(kept: bool) -> None:
    module = _Largest(lambda x: x.max(dim=1, keepdim=kept)[0])
    graph = clone(capture_module(module, (X,)).graph)
    keep_reduced_dimensions(graph)
    graph.recompile()
    assert not nodes_of(graph, MAX)
    assert torch.equal(graph(X)[0], module(X))


def test_maxima_whose_places_are_read_are_left_alone() -> None:
    graph = clone(capture_module(_Largest(lambda x: x.max(dim=1)[1]), (X,)).graph)
    keep_reduced_dimensions(graph)
    assert nodes_of(graph, MAX)


@pytest.mark.long
def test_the_artifact_computes_it_and_the_lowering_fails_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _Largest(lambda x: x.max(dim=1)[0] + 1)
    program, file = run_pass(capture_module(module, (X,)), RemoveNoops()), tmp_path / "largest.pte"
    file.write_bytes(lower_static(program).artifact)
    assert torch.equal(TorchMethod(file)([X])[0], module(X))
    monkeypatch.setattr(static_lowering, "keep_reduced_dimensions", lambda graph: None)
    # Where this passes, the partitioner has learnt the form, and it need not be rewritten.
    with pytest.raises(RuntimeError, match="keep_dim"):
        lower_static(program)


@pytest.mark.long
def test_convolutions_beside_edgecs_kernels_keep_them_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 8, 3)
    module = _Largest(lambda x: torch.relu(layer(x)).max(dim=3)[0])
    program, file = run_pass(capture_module(module, (X,)), RemoveNoops()), tmp_path / "largest.pte"
    file.write_bytes(lower(program, block_rows=BlockRows.of(platform.machine())).artifact)
    got = TorchMethod(file)([X])[0]
    # Float sums in another order.
    assert torch.allclose(got, module(X), rtol=1e-5, atol=1e-5)
