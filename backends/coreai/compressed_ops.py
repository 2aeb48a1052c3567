"""edgec's compressed weights for coreai-torch: the graph's forms, replaced by operators of its own converter.

    edgec::dequantize_lut(index, table)          ->  coreai::lut_to_dense(indices, lut [G, 1, ..., 2^bits, 1])
    torchao::dequantize_affine(integers, scale)  ->  coreai::constexpr_blockwise_shift_scale(int4 or int8)

coreai-torch packs indices and integers below 8 bits by the names and types that these operators carry. Values are the
graph's own. The rewritten graph is for conversion alone: the eager operators copy a table for every weight.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attributes import attribute, read_shared
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.quantized_form import DEQUANTIZE, drop_if_unused

LUT_BITS = (1, 2, 4, 6, 8)
_INTEGERS = {(-2, 1): "int2", (-8, 7): "int4", (-128, 127): "int8"}


def use_coreai_forms(graph: GraphModule) -> None:
    """Replace edgec's compressed forms with Core AI's, in place; a form that Core AI lacks is an error.

    Raises:
        InputError: E441, a table or an integer width that Core AI does not read, or integers that are computed.
    """
    import coreai_torch._compression.custom_layers  # noqa: F401  (registers torch.ops.coreai)

    for node in list(graph.graph.nodes):
        if node.target is DEQUANTIZE_LUT:
            _replace(graph, node, _lut(graph, node))
        elif node.target is DEQUANTIZE:
            _replace(graph, node, _affine(graph, node))
    graph.graph.lint()
    graph.recompile()


def _replace(graph: GraphModule, old: Node, new: Node) -> None:
    new.meta = dict(old.meta)
    old.replace_all_uses_with(new)
    sources = old.all_input_nodes
    graph.graph.erase_node(old)
    drop_if_unused(graph, *sources)


def _lut(graph: GraphModule, node: Node) -> Node:
    indices, table, scale = (_constant(graph, source) for source in node.args[:3])
    assert indices is not None and table is not None
    group_rows: Any = node.args[3]
    _check_entries(table.shape[1], node)
    if scale is not None:
        table = table.repeat_interleave(group_rows, 0) * scale.view(-1, 1).to(table.dtype)
    lut = table.reshape(table.shape[0], *[1] * (indices.dim() - 1), table.shape[1], 1)
    stem = str(node.args[0].target)  # type: ignore[union-attr]
    operands = [_place(graph, f"{stem}_{name}", value, node) for name, value in (("indices", indices), ("lut", lut))]
    with graph.graph.inserting_before(node):
        return graph.graph.call_function(torch.ops.coreai.lut_to_dense.default, (*operands, 0))


def _check_entries(entries: int, node: Node) -> None:
    if entries not in [1 << bits for bits in LUT_BITS]:
        raise InputError(
            what=f"a look-up table of {entries} entries cannot be expressed in Core AI",
            where=node.name,
            why=f"its indices have {', '.join(map(str, LUT_BITS))} bits",
            fix="choose one of these widths in the recipe",
            code="E441",
        )


def _affine(graph: GraphModule, node: Node) -> Node:
    integers, scale, zero_point = (_constant(graph, node.args[i]) for i in (0, 2, 3))
    block: Any = node.args[1]
    bounds: Any = tuple(node.args[5:7])
    if integers is None or scale is None or bounds not in _INTEGERS or (zero_point is not None and zero_point.any()):
        raise InputError(
            what=f"integers from {bounds[0]} to {bounds[1]} cannot be expressed in Core AI here",
            where=node.name,
            why="edgec hands over constant, symmetric integers of 2, 4 or 8 bits; activations stay in float16",
            fix="set activation_bits = 0 in the recipe, or use one of edgec's recipes for this target",
            code="E441",
        )
    shape = [size // per for size, per in zip(integers.shape, block, strict=True)]
    stem = str(node.args[0].target)  # type: ignore[union-attr]
    parts = (("quantized_data", integers), ("grid", scale.reshape(shape)))
    operands = [_place(graph, f"{stem}_{name}", value, node) for name, value in parts]
    dtype = getattr(torch, _INTEGERS[bounds])
    with graph.graph.inserting_before(node):
        operator = torch.ops.coreai.constexpr_blockwise_shift_scale.default
        return graph.graph.call_function(operator, (*operands, None, None, dtype, None))


def _constant(graph: GraphModule, source: object) -> Tensor | None:
    """The tensor that a ``get_attr`` node reads, or None for any other node."""
    if not isinstance(source, Node) or source.op != "get_attr":
        return None
    value: Tensor = attribute(graph, str(source.target))
    return value.detach()


def _place(graph: GraphModule, name: str, value: Tensor, before: Node) -> Node:
    """Read a buffer of that name just before a node; register it unless it exists."""
    with graph.graph.inserting_before(before):
        return read_shared(graph, name, lambda: value)
