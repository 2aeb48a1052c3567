"""The matrices of a graph that edgec's kernels read, in the fewest bits that hold their integers.

    weight_int, weight_scale, weight_zero_point -> dequantize_affine -> aten.linear      ==>      PackedMatrix + bytes

Legality: symmetric integers; one float32 scale per row, or scales in groups of a multiple of 32 that bfloat16 holds
(edgec's recipes round them so); the input is float32 [., ., width], or such a value quantised to 8 bits, 32 values at a
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.edgec_linear.layout import (
    BALANCED2,
    SLICE,
    SYMMETRIC,
    TERNARY,
    BlockRows,
    CodeGrid,
    PackedMatrix,
    pack_matrix,
)
from edgec.backends.xnnpack.delegate import DelegateConstant, keep, raw_bytes
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import DEQUANTIZE, rounded_input

aten = torch.ops.aten
LINEAR = aten.linear.default
_LARGEST_GROUP = 1024
_INT8 = (-128, 127)
INT8, FLOAT32 = "int8", "float32"
"""How a matrix reads its input, in the words of a delegate's text."""


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix of integers in a graph.

    Attributes:
        name: the attribute that holds the integers, int8 [rows, width].
        scale_name: the attribute that holds the scales, float32 [rows, groups].
        group: values that share a scale; 0: the whole row.
    """

    name: str
    scale_name: str
    group: int


def stored_matrix(graph: GraphModule, weight: Any) -> StoredMatrix | None:
    """The integers that a weight is dequantised from, where edgec's kernels can read them; None otherwise."""
    if not isinstance(weight, Node) or weight.target is not DEQUANTIZE:
        return None
    if any(source.op != "get_attr" for source in weight.all_input_nodes):
        return None
    names = [str(weight.args[i].target) for i in (0, 2, 3)]  # type: ignore[union-attr]
    integers, scale, zero = (attribute(graph, name) for name in names)
    if integers.dim() != 2 or integers.dtype != torch.int8 or zero.any():
        return None
    width, block = integers.shape[1], int(weight.args[1][1])  # type: ignore[index, arg-type]
    group = 0 if block == width else block
    return StoredMatrix(names[0], names[1], group) if _readable(weight, width, group, scale) else None


def _readable(weight: Node, width: int, group: int, scale: Tensor) -> bool:
    low, high = int(weight.args[5]), int(weight.args[6])  # type: ignore[arg-type]
    if low < _INT8[0] or high > _INT8[1]:
        return False
    if group == 0:
        return True
    shaped = group % SLICE == 0 and group <= _LARGEST_GROUP and width % group == 0
    return shaped and torch.equal(scale.bfloat16().float(), scale.float())


def quantised_source(node: Any) -> Node | None:
    """What an input was before 32 values at a time were quantised; None where it was not, or in another way."""
    rounded = rounded_input(node)
    return rounded[0] if rounded and rounded[1] == SLICE and _is_float(rounded[0]) else None


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.float32 and value.dim() == 3


def input_of(node: Any) -> tuple[Node, str] | None:
    """What a layer with integer weights reads, and how: ``INT8`` or ``FLOAT32``; None where no kernel reads it so."""
    if source := quantised_source(node):
        return source, INT8
    plain = isinstance(node, Node) and node.target is not DEQUANTIZE and _is_float(node)
    return (node, FLOAT32) if plain else None


def fewest_bits(values: Tensor) -> CodeGrid:
    """The smallest grid that holds all values of an int8 matrix."""
    low, high = (int(bound) for bound in values.aminmax())
    if low >= -1 and high <= 1:
        return TERNARY
    if low >= -2 and high <= 1:
        return SYMMETRIC[2]
    if low >= -3 and high <= 3 and bool((values & 1).all()):
        return BALANCED2
    return next(grid for bits, grid in SYMMETRIC.items() if low >= -grid.offset and high < grid.offset)


def keep_matrix(
    graph: GraphModule, matrix: StoredMatrix, block_rows: BlockRows, store: NamedDataStore
) -> tuple[PackedMatrix, DelegateConstant]:
    """Lay out a matrix and put it among a delegate's named data: its shape, and what is stored."""
    values, scales = attribute(graph, matrix.name), attribute(graph, matrix.scale_name)
    rows, width = values.shape
    shape = PackedMatrix(rows, width, matrix.group, fewest_bits(values), block_rows)
    data = raw_bytes(pack_matrix(shape, values, scales))
    return shape, keep(store, matrix.name, f"int{shape.grid.bits}", data, rows * width, (matrix.scale_name,))
