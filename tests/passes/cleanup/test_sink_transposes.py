from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.passes.cleanup.sink_transposes import SinkTransposes
from edgec.passes.contract import nodes_of, run_pass

aten = torch.ops.aten
WIDTH = 6


class Gated(nn.Module):
    """What LFM2 and Mamba do around a convolution, channels first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, WIDTH))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (x * 2).transpose(-1, -2).chunk(2, dim=-2)
        gated = torch.nn.functional.silu(first) * second
        return gated.transpose(1, 2) + 1, (self.weight @ x.transpose(1, 2)).transpose(1, 2)


class Mixed(nn.Module):
    """A sum over a dimension, and operands that are broadcast: nothing here can be turned."""

    def forward(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        turned = x.transpose(1, 2)
        return turned.cumsum(1).transpose(1, 2), (turned + bias).transpose(1, 2)


def program_of(module: nn.Module, *inputs: Tensor) -> Program:
    size = Dynamic("S", 2, 16)
    exported = torch.export.export(module, inputs, dynamic_shapes=({1: torch.export.Dim("S", min=2, max=16)},))
    graph: Any = exported.module(check_guards=False)
    given = TensorType("x", torch.float32, (1, size, WIDTH))
    return Program(torch.fx.GraphModule(graph, graph.graph), Interface((given,), ()))


def transposes(program: Program) -> int:
    return len(nodes_of(program.graph, aten.transpose.int))


def test_what_lies_between_two_transpositions_is_computed_without_them() -> None:
    x = torch.randn(1, 8, WIDTH)
    before = program_of(Gated(), x)
    after = run_pass(before, SinkTransposes())
    assert transposes(before) == 4 and transposes(after) == 0
    assert len(nodes_of(after.graph, aten.linear.default)) == 1, "a matrix times a transposed value is a linear layer"
    for length in (8, 3):
        given = torch.randn(1, length, WIDTH)
        for wanted, got in zip(before.graph(given), after.graph(given), strict=True):
            # The linear layer sums in another order.
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-6)


def test_what_mixes_values_or_broadcasts_stays() -> None:
    class Held(Mixed):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return super().forward(x, torch.ones(WIDTH, 1))

    before = program_of(Held(), torch.randn(1, 8, WIDTH))
    assert transposes(run_pass(before, SinkTransposes())) == transposes(before) == 3
