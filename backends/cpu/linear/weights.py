"""The matrices of a graph that edgec's kernels read, in the fewest bits that hold their integers.

    weight_int, weight_scale, weight_zero_point -> dequantize_affine -> aten.linear      ==>      PackedMatrix + bytes
    weight_int, weight_scale, weight_minimum -> dequantize_minimum -> aten.linear        ==>      the same

Legality: symmetric integers, or integers from 0 on with minimums; scales and minimums that one of the forms of
scale_forms.py holds exactly (edgec's recipes and GGUF round them so); the input is float32 [., ., width], or such a
value quantised to 8 bits, 32 values at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.cpu.linear.layout import (
    BALANCED2,
    FROM_ZERO,
    SYMMETRIC,
    TERNARY,
    BlockRows,
    CodeGrid,
    PackedMatrix,
    pack_matrix,
)
from edgec.backends.cpu.linear.scale_forms import SLICE, Affine, ScaleForm, form_of
from edgec.backends.cpu.regions.delegate import DelegateConstant, keep, raw_bytes
from edgec.ir.attributes import attribute
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.quantized_form import DEQUANTIZE, rounded_input

aten = torch.ops.aten
LINEAR = aten.linear.default
INT8, FLOAT32 = "int8", "float32"
"""How a matrix reads its input, in the words of a delegate's text."""
_ROWS = 4096


@dataclass(frozen=True)
class StoredMatrix:
    """A matrix of integers in a graph.

    Attributes:
        name: the attribute that holds the integers, int8 [rows, width].
        scale_name: the attribute that holds the scales, float32 [rows, groups].
        minimum_name: the attribute that holds the minimums, float32 [rows, groups]; empty where there are none.
        group: values that share a scale; 0: the whole row.
        grid: the meaning of its codes.
        form: of its scales and minimums.
    """

    name: str
    scale_name: str
    minimum_name: str
    group: int
    grid: CodeGrid
    form: ScaleForm

    @property
    def beside(self) -> tuple[str, ...]:
        """The attributes that hold its scales and minimums."""
        return tuple(name for name in (self.scale_name, self.minimum_name) if name)

    def affine(self, graph: GraphModule) -> Affine:
        """Its scales and minimums."""
        minimums = attribute(graph, self.minimum_name) if self.minimum_name else None
        return Affine(attribute(graph, self.scale_name).float(), minimums)

    def packed(self, rows: int, width: int, block_rows: BlockRows) -> PackedMatrix:
        """Its shape in a layout, with so many rows."""
        return PackedMatrix(rows, width, self.group, self.grid, block_rows, self.form)


def stored_matrix(graph: GraphModule, weight: Any) -> StoredMatrix | None:
    """The integers that a weight is dequantised from, where edgec's kernels can read them; None otherwise."""
    if not isinstance(weight, Node) or weight.target not in (DEQUANTIZE, DEQUANTIZE_MINIMUM):
        return None
    if any(source.op != "get_attr" for source in weight.all_input_nodes):
        return None
    names = [str(weight.args[i].target) for i in (0, 2, 3)]  # type: ignore[union-attr]
    integers, scale, beside = (attribute(graph, name) for name in names)
    if integers.dim() != 2 or integers.dtype != torch.int8:
        return None
    lifted = weight.target is DEQUANTIZE_MINIMUM
    if not lifted and (beside.any() or int(weight.args[5]) < -128 or int(weight.args[6]) > 127):  # type: ignore[arg-type]
        return None
    grid = fewest_bits(integers, lifted)
    affine = Affine(scale.float().reshape(integers.shape[0], -1), beside if lifted else None)
    form, grid = _form_and_grid(affine, integers.shape[1], grid)
    group = 0 if form is ScaleForm.ROW else integers.shape[1] // affine.scales.shape[1]
    return StoredMatrix(names[0], names[1], names[2] if lifted else "", group, grid, form) if form else None


def _form_and_grid(affine: Affine, width: int, grid: CodeGrid | None) -> tuple[ScaleForm | None, CodeGrid]:
    """A form for the scales, and the grid of the codes: one of more bits where no form goes with the fewest."""
    candidates = [] if grid is None else [grid]
    if affine.minimums is None:
        candidates += [SYMMETRIC[bits] for bits in (6, 8) if grid and bits > grid.bits]
    for candidate in candidates:
        form = form_of(affine, width, candidate.bits, candidate.centred)
        if form is not None:
            return form, candidate
    return None, SYMMETRIC[8]


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


def fewest_bits(values: Tensor, from_zero: bool = False) -> CodeGrid | None:
    """The smallest grid that holds all values of an int8 matrix; None where values ``from_zero`` are not in one."""
    low, high = _extremes(values)
    if from_zero:
        return next((grid for bits, grid in FROM_ZERO.items() if low >= 0 and high < 1 << bits), None)
    if low >= -1 and high <= 1:
        return TERNARY
    if low >= -2 and high <= 1:
        return SYMMETRIC[2]
    if low >= -3 and high <= 3 and bool((values & 1).all()):
        return BALANCED2
    return next(grid for bits, grid in SYMMETRIC.items() if low >= -grid.offset and high < grid.offset)


def _extremes(values: Tensor) -> tuple[int, int]:
    """The least and the greatest value, of a matrix whose rows may be made when they are read."""
    ends = [values[start : start + _ROWS].aminmax() for start in range(0, len(values), _ROWS)]
    return min(int(low) for low, _ in ends), max(int(high) for _, high in ends)


def keep_matrix(
    graph: GraphModule, matrix: StoredMatrix, block_rows: BlockRows, store: NamedDataStore
) -> tuple[PackedMatrix, DelegateConstant]:
    """Lay out a matrix and put it among a delegate's named data: its shape, and what is stored."""
    values, affine = attribute(graph, matrix.name), matrix.affine(graph)
    rows, width = values.shape
    shape = matrix.packed(rows, width, block_rows)
    data = raw_bytes(pack_matrix(shape, values, affine.scales, affine.minimums))
    return shape, keep(store, matrix.name, f"int{shape.grid.bits}", data, rows * width, matrix.beside)


def matrix_fields(shape: PackedMatrix) -> dict[str, int | str]:
    """The lines that describe a matrix in the text of a delegate (kernels/delegate_text.h), in their order."""
    grid = shape.grid
    sizes = {"block_rows": int(shape.block_rows), "rows": shape.rows, "width": shape.width, "group": shape.group}
    coded = {"bits": grid.bits, "step": grid.step, "offset": grid.offset}
    return {**sizes, **coded, "scales": str(shape.scale_form)}
