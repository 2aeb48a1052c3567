"""Replace token positions that model code computes itself by those that it is given.

Models like RoBERTa count positions from after the padding index; those like BART count the tokens of a call instead
of reading positions. Both must follow the positions of a call, or decoding would begin at 0 again with every token.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from edgec.ir.attention import OPERATOR
from edgec.passes.contract import nodes_of, placeholder
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_CASTS = (aten.to.dtype, aten._to_copy.default)
_COUNTS = (aten.arange.default, aten.arange.start, aten.arange.start_step)


def first_place(model: nn.Module) -> int:
    """The row of the position table that belongs to position 0."""
    for module in model.modules():
        padding = getattr(module, "padding_idx", None)
        if hasattr(type(module), "create_position_ids_from_input_ids") and isinstance(padding, int):
            return padding + 1
    return 0


def follow_positions(graph: GraphModule) -> None:
    """Put the positions in place of a count of a call's tokens, where only attention reads the positions.

    The count is 0, 1, ... S - 1: what the positions are in a call that begins at 0. A count of the tokens that are not
    padding (M2M-100) is the positions plus 1: a decoder here is given no padding. Where more reads the positions, a
    count may be an index into the call's own rows; one that becomes a float is a place nevertheless (Llama 4 scales
    queries by it).
    """
    positions = placeholder(graph, "positions")
    counts = [node for node in nodes_of(graph, *_COUNTS) if _counts_tokens(node, graph)]
    if any(user.target is not OPERATOR and user.users for user in positions.users):
        counts = [node for node in counts if _is_measured(node)]
    for node in counts:
        after = positions if node.meta["val"].dtype == torch.long else _cast(graph, positions, node)
        node.replace_all_uses_with(after)
        graph.graph.erase_node(node)
    sums = [node for node in nodes_of(graph, aten.cumsum.default) if _sums_tokens(node, graph)]
    for node in sums:
        node.replace_all_uses_with(_places(graph, positions, node))
        graph.graph.erase_node(node)
    if counts or sums:
        graph.recompile()


def _is_measured(count: Node) -> bool:
    """Whether all that reads a count reads it as a float, perhaps after a number was added to it."""
    if count.meta["val"].is_floating_point():
        return True
    # A node without readers is a check of dtypes.
    readers = [user for user in count.users if user.users]
    return bool(readers) and all(
        (user.target in _CASTS and user.meta["val"].is_floating_point()) or (_is_shift(user) and _is_measured(user))
        for user in readers
    )


def _is_shift(node: Node) -> bool:
    """Whether a node adds a number to its only input."""
    return node.target is aten.add.Tensor and len(node.all_input_nodes) == 1


def _counts_tokens(node: Node, graph: GraphModule) -> bool:
    bounds: list[Any] = [0, *node.args] if node.target is aten.arange.default else list(node.args)
    start, end, step = (*bounds, 1)[:3]
    return start == 0 and step == 1 and isinstance(end, Node) and end in _sizes(graph)


def _sums_tokens(node: Node, graph: GraphModule) -> bool:
    """Whether a node is ``cumsum(tokens != padding, 1)``."""
    source: Any = node.args[0]
    while isinstance(source, Node) and source.target in (aten.to.dtype, aten._to_copy.default):
        source = source.args[0]
    compared = isinstance(source, Node) and source.target is aten.ne.Scalar
    return compared and source.args[0] is placeholder(graph, "tokens") and node.args[1] in (1, -1)


def _places(graph: GraphModule, positions: Node, node: Node) -> Node:
    """The positions plus 1 as [1, S], in the dtype of a sum."""
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        dtype: torch.dtype = node.meta["val"].dtype
        return emit(aten.to.dtype, emit(aten.unsqueeze.default, emit(aten.add.Tensor, positions, 1), 0), dtype)


def _sizes(graph: GraphModule) -> set[Node]:
    """The nodes that hold the number of a call's tokens."""
    inputs = [(placeholder(graph, "tokens"), 1), (placeholder(graph, "positions"), 0)]
    return {node for node in nodes_of(graph, aten.sym_size.int) if tuple(node.args) in inputs}


def _cast(graph: GraphModule, positions: Node, node: Node) -> Node:
    with graph.graph.inserting_before(node):
        cast = graph.graph.call_function(aten.to.dtype, (positions, node.meta["val"].dtype))
    cast.meta = dict(node.meta)
    return cast
