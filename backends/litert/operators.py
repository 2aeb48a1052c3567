"""A static method in operators that LiteRT's converter has, with rounded matrices as inputs.

    linear(x rounded, dequantize_affine(w, s))    ==>   linear(x, W)     LiteRT's kernel rounds x as the graph does
    embedding(dequantize_affine(w, s), ids)       ==>   embedding(W, ids)
    edgec::update_slots(K, rows, start)           ==>   litert_torch::dynamic_update_slice(K, rows, [0, 0, start, 0])
    table[positions]                              ==>   embedding(table, positions)
    index_select(x [1,1,H], 1, last)              ==>   x

    by_products: table[positions]                 ==>   relu(1 - |positions - (0 .. slots-1)|) @ table

LiteRT's delegate for GPUs looks up rows of rounded tables alone. A row of ones and zeros times the table is the same
number, also in float16, which has every whole number up to 2,048.

W is an input (matrix_inputs.py); its name says afterwards which integers belong in its place (weights.py).
Legality: integers around 0, inputs rounded for each token or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from edgec.backends.litert.matrix_inputs import MATRIX, matrix_input
from edgec.backends.onnx.onnx_form import constant, quantized_parts
from edgec.ir.attributes import attribute
from edgec.ir.operators import UPDATE_SLOTS
from edgec.ir.quantized_form import DEQUANTIZE, rounded_input
from edgec.passes.contract import clean, nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
IntegerArray = np.ndarray[Any, np.dtype[Any]]
_FLAT, _TURNED = "_flat", "_turned"


@dataclass(frozen=True)
class Integers:
    """A rounded matrix: integers int8 [N, K], scales float32 [N] or [N, K / g], bits of an integer."""

    name: str
    values: IntegerArray
    scales: IntegerArray
    bits: int


@dataclass
class LitertOperators:
    """Rewrites the graphs of several methods over the same matrices.

    Attributes:
        by_products: rows of float tables are read by products, for GPUs.
        matrices: the rounded ones, by the names of their inputs.
    """

    by_products: bool = False
    matrices: dict[str, Integers] = field(default_factory=dict)
    _inputs: dict[str, str] = field(default_factory=dict)

    def rewrite(self, graph: GraphModule) -> None:
        """Rewrite a graph in place."""
        for node in nodes_of(graph, DEQUANTIZE, *_REWRITES):
            with graph.graph.inserting_before(node):
                made = self._rewritten(graph, node)
            if made is not None:
                node.replace_all_uses_with(made)
        clean(graph)

    def _rewritten(self, graph: GraphModule, node: Node) -> Node | None:
        if node.target is not DEQUANTIZE:
            return _REWRITES[node.target](graph, node, self.by_products)
        rounded = rounded_input(node)
        return rounded[0] if rounded else self._matrix(graph, node)

    def _matrix(self, graph: GraphModule, node: Node) -> Node:
        integers, scale, bits = quantized_parts(node)
        name = str(integers.target)
        if name not in self._inputs:
            value, scales = attribute(graph, name).detach(), attribute(graph, str(scale.target)).detach().float()
            self._inputs[name] = f"{MATRIX}{len(self._inputs)}"
            self.matrices[self._inputs[name]] = Integers(name, value.numpy(), scales.numpy(), bits)
        return matrix_input(graph, self._inputs[name], node.meta["val"])


def _update(graph: GraphModule, node: Node, by_products: bool) -> Node:
    """New rows written into a cache."""
    cache, rows, start = node.args
    call = graph.graph.call_function
    at = call(aten.reshape.default, (start, []))
    zero = call(aten.mul.Scalar, (at, 0))
    operator: Any = torch.ops.litert_torch
    return call(operator.dynamic_update_slice.default, (cache, rows, [zero, zero, at, zero]))


def _select(graph: GraphModule, node: Node, by_products: bool) -> Node | None:
    source, dim, index = node.args
    assert isinstance(source, Node) and isinstance(index, Node)
    if source.op == "get_attr" and dim == 0:
        return _looked_up(graph, node, source, index, by_products)
    return source if source.meta["val"].shape == node.meta["val"].shape else None


def _index(graph: GraphModule, node: Node, by_products: bool) -> Node | None:
    given: Any = node.args
    source, places = given
    # Bias tables have their positions last: [H, slots][:, positions].
    whole = source.op == "get_attr" and len(places) == 1
    return _looked_up(graph, node, source, places[0], by_products) if whole else None


def _looked_up(graph: GraphModule, node: Node, table: Node, index: Node, by_products: bool) -> Node:
    emit = Emitter(graph.graph)
    value = attribute(graph, str(table.target))
    flat = (
        table if value.dim() == 2 else constant(graph, table, f"{table.target}{_FLAT}", value.reshape(len(value), -1))
    )
    rows = _multiplied(graph, emit, flat, index) if by_products else emit(aten.embedding.default, flat, index)
    return emit(aten.reshape.default, rows, [int(size) for size in node.meta["val"].shape])


def _multiplied(graph: GraphModule, emit: Emitter, table: Node, index: Node) -> Node:
    """Rows [S, R] of a table [slots, R] by products."""
    slots = int(table.meta["val"].shape[0])
    numbers = constant(graph, table, f"edgec_numbers_{slots}", torch.arange(slots, dtype=torch.float32).reshape(1, -1))
    turned = constant(graph, table, f"{table.target}{_TURNED}", attribute(graph, str(table.target)).t())
    places = emit(aten.reshape.default, emit(aten.to.dtype, index, torch.float32), [-1, 1])
    apart = emit(aten.abs.default, emit(aten.sub.Tensor, places, numbers))
    return emit(aten.linear.default, emit(aten.relu.default, emit(aten.rsub.Scalar, apart, 1.0)), turned)


_REWRITES: Mapping[Any, Callable[[GraphModule, Node, bool], Node | None]] = {
    UPDATE_SLOTS: _update,
    aten.index_select.default: _select,
    aten.index.Tensor: _index,
}
