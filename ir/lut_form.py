"""The one form of look-up-table weights in the graph, and the operator that reads it.

    weight_index uint8 [N, ...], weight_table float32 [G, 2^bits]
      -> edgec::dequantize_lut(group_rows) -> aten.linear | aten.embedding | aten.conv2d

Row n of the result is ``table[n // group_rows][index[n]]``, times ``scale[n]`` where there is one. The indices may have
any rank of at least one (a 1x1 convolution's are [N, K, 1, 1]); the first dimension is the output channel.
``group_rows`` divides N; N itself is one table for the whole matrix. Fixed sets of values (balanced 2-bit) and pruned
weights are tables too: a pruned table holds an exact 0 at index 0.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.operators import NAMESPACE

_BLOCK_VALUES = 1 << 18
"""Values looked up at once: their 32-bit positions stay in a core's cache. Measured: 0.8 ns a value."""


def dequantize_lut(indices: Tensor, table: Tensor, scale: Tensor | None, group_rows: int) -> Tensor:
    """The values that indices stand for.

    Args:
        indices: uint8 [N, ...], below 2^bits.
        table: float [N / group_rows, 2^bits].
        scale: float [N], one factor per output channel, or None.
        group_rows: rows that share a table.

    Returns:
        the table's dtype, [N, ...].
    """
    rows = indices.shape[0]
    result = torch.empty(indices.shape, dtype=table.dtype)
    flat, values, dense = indices.reshape(rows, -1), table.reshape(-1), result.view(rows, -1)
    first = torch.arange(rows, dtype=torch.int32).div_(group_rows, rounding_mode="floor").mul_(table.shape[1])
    step = max(1, _BLOCK_VALUES // max(1, flat.shape[1]))
    for part in (slice(start, start + step) for start in range(0, rows, step)):
        places = torch.add(flat[part], first[part].unsqueeze(1))
        torch.index_select(values, 0, places.view(-1), out=dense[part].view(-1))
    return result if scale is None else result.mul_(scale.view(-1, *[1] * (indices.dim() - 1)).to(table.dtype))


def _fake(indices: Tensor, table: Tensor, scale: Tensor | None, group_rows: int) -> Tensor:
    return table.new_empty(indices.shape)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_LIBRARY.define(
    "dequantize_lut(Tensor indices, Tensor table, Tensor? scale, int group_rows) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_LIBRARY.impl("dequantize_lut", dequantize_lut, "CPU")
torch.library.register_fake(f"{NAMESPACE}::dequantize_lut", _fake, lib=_LIBRARY)
DEQUANTIZE_LUT = torch.ops.edgec.dequantize_lut.default


def is_lut(node: object) -> bool:
    """Whether a node reads a look-up table."""
    return isinstance(node, Node) and node.target is DEQUANTIZE_LUT


def looked_up(graph: GraphModule, names: tuple[str, str], group_rows: int) -> Node:
    """A matrix from the buffers of its indices and tables, read at the current insertion point."""
    indices, table = (graph.graph.get_attr(name) for name in names)
    return graph.graph.call_function(DEQUANTIZE_LUT, (indices, table, None, group_rows))


def lut_rows(indices: Tensor, table: Tensor, scale: Tensor | None, group_rows: int, rows: Tensor) -> Tensor:
    """Some rows of the matrix without the others: ``rows`` int64 [n] -> [n, ...]."""
    return dequantize_lut(indices[rows], table[rows // group_rows], None if scale is None else scale[rows], 1)
