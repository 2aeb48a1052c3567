"""A product with a parameter as a linear layer: the same numbers, and what is left alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.fuse.matmul_to_linear import MatmulToLinear

aten = torch.ops.aten
PRODUCTS = (aten.matmul.default, aten.mm.default, aten.addmm.default)


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


class Flattened(nn.Module):
    """GPT-2's layer: rows [S, I] times a matrix [I, O], and the bias."""

    def __init__(self, again: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(5, 7), requires_grad=False)
        self.bias = nn.Parameter(torch.randn(7), requires_grad=False)
        self.again = again

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.addmm(self.bias, x.view(-1, 5), self.weight)
        return rows.sum(0) if self.again else rows.view(*x.shape[:-1], 7)


def test_a_flattened_product_with_a_bias_keeps_the_rows_of_its_input() -> None:
    module, x = Flattened(), torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(1))
    program = run_pass(capture_module(module, (x,)), MatmulToLinear())
    (linear,) = nodes_of(program.graph, aten.linear.default)
    assert linear.meta["val"].shape == (1, 3, 7) and not nodes_of(program.graph, *PRODUCTS, aten.view.default)
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)
    assert dict(program.graph.named_parameters())["weight"].shape == (7, 5), "the weight keeps its name"
    assert module.weight.shape == (5, 7), "the model's own is left alone"


def test_other_readers_of_the_rows_get_them_flat() -> None:
    module, x = Flattened(again=True), torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(1))
    program = run_pass(capture_module(module, (x,)), MatmulToLinear())
    assert nodes_of(program.graph, aten.linear.default)
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)


def test_a_weight_that_something_else_reads_is_kept_beside_the_new_one() -> None:
    class Both(Product):
        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight + self.weight.sum()

    module, x = Both(torch.float32), torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(1))
    program = run_pass(capture_module(module, (x,)), MatmulToLinear())
    assert set(dict(program.graph.named_parameters())) == {"weight", "weight_matrix"}
    torch.testing.assert_close(program.graph(x)[0], module(x), atol=1e-6, rtol=0)


def test_factors_are_left_alone() -> None:
    class Scaled(Product):
        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(torch.ones(7), x, self.weight, alpha=2.0)

    program = capture_module(Scaled(torch.float32), (torch.randn(3, 5),))
    assert nodes_of(run_pass(program, MatmulToLinear()).graph, aten.addmm.default)
