"""Rows between linear layers with a batch dimension: the same numbers."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import Node

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Program
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.fuse.batch_dimension import BatchDimension

aten = torch.ops.aten
X = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """A layer of an image encoder over patches [T, C], and the merging of two patches."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.merge = nn.Linear(64, 48, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))
        made: torch.Tensor = self.merge(x.view(-1, 64))
        return made


def captured() -> tuple[Block, Program]:
    torch.manual_seed(0)
    module = Block().eval()
    return module, capture_module(module, (X,))


def test_the_numbers_stay_and_every_layer_has_a_batch() -> None:
    module, program = captured()
    changed = run_passes(program, [BatchDimension()])
    # The same operators on the same rows; a matrix product may be split differently.
    torch.testing.assert_close(changed.graph(X)[0], module(X), atol=1e-6, rtol=0)
    layers = nodes_of(changed.graph, aten.linear.default)
    assert [node.meta["val"].dim() for node in layers] == [3, 3, 3]
    # The residual stream loses its batch once, before patches are merged, and the result at the end.
    assert len(nodes_of(changed.graph, aten.squeeze.dim)) == 2
    again = run_passes(changed, [BatchDimension()])
    assert [node.target for node in again.graph.graph.nodes] == [node.target for node in changed.graph.graph.nodes]


def test_vectors_and_parameters_stay() -> None:
    module = nn.Sequential(nn.Linear(32, 8), nn.ReLU())
    program = run_passes(capture_module(module, (X[:1],)), [BatchDimension()])
    (layer,) = nodes_of(program.graph, aten.linear.default)
    weight = layer.args[1]
    assert isinstance(weight, Node) and weight.op == "get_attr" and weight.meta["val"].dim() == 2
    single = run_passes(capture_module(module, (X[0],)), [BatchDimension()])
    assert not nodes_of(single.graph, aten.unsqueeze.default)
