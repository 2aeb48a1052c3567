"""A product with a parameter as a linear layer: the same numbers, and what is left alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear

aten = torch.ops.aten
PRODUCTS = (aten.matmul.default, aten.mm.default)


class Product(nn.Module):
    """``x @ weight`` in a dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(5, 7, dtype=dtype), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.to(torch.float32)


def test_the_numbers_stay() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for shape in ((3, 5), (1, 3, 5), (2, 3, 4, 5)):
            module, x = Product(dtype), torch.randn(*shape, generator=torch.Generator().manual_seed(1))
            program = run_pass(capture_module(module, (x,)), MatmulToLinear())
            assert not nodes_of(program.graph, *PRODUCTS) and nodes_of(program.graph, aten.linear.default)
            # Five products in another order.
            torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)


def test_products_of_two_values_are_left_alone() -> None:
    class Square(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ x

    program = capture_module(Square(), (torch.randn(4, 4),))
    assert nodes_of(run_pass(program, MatmulToLinear()).graph, *PRODUCTS)
