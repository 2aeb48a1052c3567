"""Matrices as a graph stores them, read by rows: none exists in float32 as a whole.

A stored matrix is an attribute of the graph, perhaps behind a cast, ``dequantize_affine`` or a look-up table. The
matrices of experts, [E, O, I], are one stored tensor, or a view of a stored matrix [E * O, I].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute
from edgec.ir.experts import EXPERTS
from edgec.ir.lut_form import is_lut, lut_rows
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM, dequantize_minimum
from edgec.ir.quantized_form import DEQUANTIZE, WEIGHT_FORMS

aten = torch.ops.aten
_BLOCK_VALUES = 1 << 22


def reads_experts(user: Node, matrix: Node) -> bool:
    """Whether a node is experts that multiply by the matrices of ``matrix``, and reads nothing else of it."""
    return user.target is EXPERTS and user.args[2] is matrix and user.all_input_nodes.count(matrix) == 1


def is_stored(node: Node) -> bool:
    """Whether a node is a matrix as a checkpoint or a quantising pass stores it, perhaps after a cast."""
    if node.op == "get_attr":
        return True
    if node.target is aten.view.default:
        return is_stored(node.all_input_nodes[0]) and all(reads_experts(user, node) for user in node.users)
    if is_lut(node):
        return all(source.op == "get_attr" for source in node.all_input_nodes)
    if node.target not in (aten.to.dtype, *WEIGHT_FORMS) or any(n.op != "get_attr" for n in node.all_input_nodes):
        return False
    block: Any = node.args[1]
    return node.target is aten.to.dtype or (len(block) == 2 and block[0] == 1)


def blocks_of(graph: GraphModule, matrix: Node) -> Iterator[slice]:
    """The rows of a stored matrix [N, K] in blocks of some megabytes."""
    rows, width = _held(graph, matrix).shape
    step = max(1, _BLOCK_VALUES // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def rows_of(graph: GraphModule, matrix: Any, rows: slice | Tensor) -> Tensor:
    """Rows of a stored matrix as the graph reads them, [n, K]."""
    if matrix.op == "get_attr":
        held: Tensor = attribute(graph, str(matrix.target))
        return held[rows]
    if is_lut(matrix):
        return _table_rows(graph, matrix, rows)
    if matrix.target is DEQUANTIZE_MINIMUM:
        integers, scale, minimum = (attribute(graph, str(matrix.args[i].target))[rows] for i in (0, 2, 3))
        return dequantize_minimum(integers, matrix.args[1], scale, minimum)
    if matrix.target is DEQUANTIZE:
        return _dequantized_rows(graph, matrix, rows)
    dense: Tensor = matrix.target(*map_arg(matrix.args, lambda source: rows_of(graph, source, rows)), **matrix.kwargs)
    return dense


def _dequantized_rows(graph: GraphModule, matrix: Node, rows: slice | Tensor) -> Tensor:
    """Rows of integers as ``dequantize_affine`` reads them, without its copies: (integer - zero point) * scale."""
    integers, scale, zero = (attribute(graph, str(matrix.args[i].target))[rows] for i in (0, 2, 3))  # type: ignore[union-attr]
    groups = integers.float().view(*scale.shape, -1)
    if zero.any():
        groups.sub_(zero.unsqueeze(-1))
    result: Tensor = groups.mul_(scale.unsqueeze(-1)).view(integers.shape)
    return result


def _table_rows(graph: GraphModule, matrix: Node, rows: slice | Tensor) -> Tensor:
    """Rows of a matrix whose groups of rows share look-up tables."""
    operands: Any = map_arg(matrix.args, lambda source: attribute(graph, str(source.target)))
    indices, table, scale, group_rows = operands
    wanted = torch.arange(len(indices))[rows] if isinstance(rows, slice) else rows
    return lut_rows(indices, table, scale, group_rows, wanted)


def expert_sizes(graph: GraphModule, matrix: Node) -> tuple[int, int]:
    """The number of experts, and the rows of each."""
    shape: Any = matrix.args[1] if matrix.target is aten.view.default else _held(graph, matrix).shape
    return shape[0], shape[1]


def expert_of(graph: GraphModule, matrix: Any, expert: int) -> Tensor:
    """The matrix of one expert as the graph reads it, [O, I]."""
    if matrix.target is not aten.view.default:
        return rows_of(graph, matrix, slice(expert, expert + 1))[0]
    flat, (_, height, _) = matrix.args
    return rows_of(graph, flat, slice(expert * height, (expert + 1) * height))


def _held(graph: GraphModule, matrix: Node) -> Tensor:
    leaf = matrix if matrix.op == "get_attr" else matrix.all_input_nodes[0]
    held: Tensor = attribute(graph, str(leaf.target))
    return held
