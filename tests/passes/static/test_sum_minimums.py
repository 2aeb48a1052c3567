"""Minimums leave matrices as zero points, or as a product of sums; graphs compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.attributes import attribute, set_buffer
from edgec.ir.kernel_grids import LINEAR_KERNELS
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE, decisions_of
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.static.sum_minimums import SumMinimums

LIFTED = WeightScheme(4, 32, symmetric=False, activation_bits=0, scale_bits=16)
ROWS, WIDTH = 40, 96
X = torch.linspace(-1.0, 2.0, 2 * WIDTH).view(1, 2, WIDTH)
IDS = torch.tensor([[0, 39, 5]])


class _Layers(nn.Module):
    """Two layers that read one input, one of them with a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, ROWS), nn.Linear(WIDTH, ROWS, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.one(x) * self.other(x)
        return result


def _layers(bits: int = 4) -> Program:
    torch.manual_seed(0)
    program = capture_module(_Layers().eval().requires_grad_(False), (X,))
    return run_pass(program, Quantize(default=replace(LIFTED, bits=bits), kernels=LINEAR_KERNELS))


def _table() -> Program:
    torch.manual_seed(0)
    program = capture_module(nn.Embedding(ROWS, WIDTH).eval().requires_grad_(False), (IDS,))
    grids = tuple(grid for grid in LINEAR_KERNELS if not grid.symmetric)
    return run_pass(program, QuantizeEmbedding(4, 32, "mse", 16, False, grids, min_rows=1))


def _run(program: Program, given: Tensor) -> Tensor:
    with torch.no_grad():
        made = program.graph(given)
    result: Tensor = made[0] if isinstance(made, tuple | list) else made
    return result


@pytest.mark.parametrize(
    ("make", "given", "bounds"),
    [(_layers, X, (0, 15)), (partial(_layers, 5), X, (0, 127)), (_table, IDS, (0, 15))],
    ids=["layers", "five bits", "table"],
)
def test_a_product_of_sums_takes_the_place_of_minimums(
    make: Callable[[], Program], given: Tensor, bounds: tuple[int, int]
) -> None:
    program = make()
    held = {name: value for name, value in program.graph.named_buffers() if value.dtype == torch.int8}
    after = run_pass(program, SumMinimums())
    torch.testing.assert_close(_run(after, given), _run(program, given), atol=1e-5, rtol=1e-5)
    assert not nodes_of(after.graph, DEQUANTIZE_MINIMUM)
    for node in nodes_of(after.graph, DEQUANTIZE):
        assert torch.equal(attribute(after.graph, str(node.args[0].target)), held[str(node.args[0].target)])  # type: ignore[union-attr]
        assert node.args[5:7] == bounds
    assert not SumMinimums().concerns(after)


def test_whole_multiples_of_scales_become_zero_points() -> None:
    program = _layers()
    for decision in decisions_of(program.graph):
        _, scale, minimum = decision.buffers
        zero = torch.arange(ROWS * 3).view(ROWS, 3) % 16
        set_buffer(program.graph, minimum, -zero.float() * attribute(program.graph, scale).half().float())
        set_buffer(program.graph, scale, attribute(program.graph, scale).half().float())
    after = run_pass(program, SumMinimums())
    assert torch.equal(_run(after, X), _run(program, X))
    affine = nodes_of(after.graph, DEQUANTIZE)
    assert len(affine) == 2 and len(nodes_of(after.graph, torch.ops.aten.linear.default)) == 2
    for node in affine:
        beside = attribute(after.graph, str(node.args[3].target))  # type: ignore[union-attr]
        assert beside.dtype == torch.int8 and beside.max() == 15


def test_a_graph_without_minimums_is_left_alone() -> None:
    torch.manual_seed(0)
    program = capture_module(_Layers().eval().requires_grad_(False), (X,))
    assert not SumMinimums().concerns(program)
