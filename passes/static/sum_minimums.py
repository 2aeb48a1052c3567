"""Take minimums of groups out of matrices, for formats whose groups have scales and whole zero points only.

    x -> linear(dequantize_minimum(W_int, s, m))      ==>      linear(x, dequantize_affine(W_int, s, 0))
                                                               + linear(sums of x's groups, m)
    embedding(dequantize_minimum(W_int, s, m), ids)   ==>      embedding(dequantize_affine(W_int, s, 0), ids)
                                                               + embedding(m, ids), each for its group
    minimums that are -z * s, z whole                 ==>      dequantize_affine(W_int, s, z)

A group adds its minimum times the sum of its inputs: integers, scales and minimums are stored as they are, and a
matrix of one value for each group is multiplied besides: 3 % of the work with groups of 32. Legality: linear layers or
embeddings read the matrix. Exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, read_shared
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
LINEAR, EMBEDDING = aten.linear.default, aten.embedding.default
_NARROW, _WIDE = (0, 15), (0, 127)
"""Bounds of codes of 4 bits, and of wider ones."""


@dataclass(frozen=True)
class SumMinimums:
    """Replace groups with minimums by groups with zero points, or a product of sums; exact."""

    name: str = "sum_minimums"
    effect: Effect = Effect.EXACT

    def concerns(self, program: Program) -> bool:
        """Whether a matrix has minimums."""
        return bool(nodes_of(program.graph, DEQUANTIZE_MINIMUM))

    def requires(self, program: Program) -> None:
        """No requirement: other forms of weights stay as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite each matrix, then what reads it."""
        for matrix in nodes_of(graph, DEQUANTIZE_MINIMUM):
            zero, readers = _zero_points(graph, matrix), list(matrix.users)
            with graph.graph.inserting_before(matrix):
                matrix.replace_all_uses_with(_affine(graph, matrix, zero))
            for reader in readers if zero is None else ():
                _add_minimums(graph, reader, matrix)
            graph.graph.erase_node(matrix)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No matrix has minimums."""
        assert not self.concerns(program)


def _zero_points(graph: GraphModule, matrix: Node) -> Tensor | None:
    """The whole multiples of their scales that all minimums are, int8 [N, G]; None where one is not."""
    scale, minimum = (attribute(graph, str(matrix.args[i].target)) for i in (2, 3))  # type: ignore[union-attr]
    zero = (-minimum / scale).round()
    whole = torch.equal(zero * -scale, minimum) and int(zero.min()) >= 0 and int(zero.max()) <= _WIDE[1]
    return zero.to(torch.int8) if whole else None


def _affine(graph: GraphModule, matrix: Node, zero: Tensor | None) -> Node:
    """The integers from 0 on under their scales, and zero points where there are any."""
    given: Any = matrix.args
    integers, block, scale, minimum = given
    codes: Tensor = attribute(graph, str(integers.target))
    beside = torch.zeros_like(attribute(graph, str(scale.target)), dtype=torch.int8) if zero is None else zero
    narrow = max(int(codes.max()), int(beside.max())) <= _NARROW[1]
    bounds = _NARROW if narrow else _WIDE
    place = read_shared(graph, f"{minimum.target}_zero_point", lambda: beside)
    if "val" in scale.meta:
        place.meta["val"] = scale.meta["val"].to(torch.int8)
    return Emitter(graph.graph)(DEQUANTIZE, integers, block, scale, place, torch.int8, *bounds)


def _add_minimums(graph: GraphModule, reader: Node, matrix: Node) -> None:
    """Add to what reads a matrix what its minimums come to."""
    given, kind = cast("tuple[Any, ...]", matrix.args), cast("torch._ops.OpOverload", reader.target)
    (_, group), minimum = given[1], given[3]
    with graph.graph.inserting_before(reader.next):
        emit = Emitter(graph.graph)
        added = _WAYS[kind](emit, reader, minimum, group)
        total = emit(aten.add.Tensor, reader, added)
    reader.replace_all_uses_with(total, delete_user_cb=lambda user: user is not total)


def _product(emit: Emitter, linear: Node, minimum: Node, group: int) -> Node:
    """The minimums times the sums of each group of inputs, [.., N]."""
    x: Any = linear.args[0]
    shape = x.meta["val"].shape
    groups = emit(aten.view.default, x, [*shape[:-1], shape[-1] // group, group])
    return emit(LINEAR, emit(aten.sum.dim_IntList, groups, [-1]), minimum)


def _looked_up(emit: Emitter, look_up: Node, minimum: Node, group: int) -> Node:
    """The minimums of the rows that are looked up, each as often as its group has values."""
    rows, shape = emit(EMBEDDING, minimum, look_up.args[1]), look_up.meta["val"].shape
    spread = emit(aten.expand.default, emit(aten.unsqueeze.default, rows, -1), [*shape[:-1], shape[-1] // group, group])
    return emit(aten.reshape.default, spread, [*shape])


_WAYS = {LINEAR: _product, EMBEDDING: _looked_up}
