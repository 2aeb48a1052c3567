"""Where model code takes a token's place from, when it is not simply the position that it is given.

RoBERTa's kind counts places from behind its padding index; decoders of BART's kind count the tokens of a call instead
of reading positions. Both must follow the positions of a call, or decoding would begin at 0 again with every token.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from edgec.ir.attention import OPERATOR
from edgec.passes.contract import nodes_of, placeholder

aten = torch.ops.aten
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

    The count is 0, 1, ... S - 1: what the positions are in a call that begins at 0.
    """
    positions = placeholder(graph, "positions")
    if any(user.target is not OPERATOR and user.users for user in positions.users):
        return
    counts = [node for node in nodes_of(graph, *_COUNTS) if _counts_tokens(node, graph)]
    for node in counts:
        after = positions if node.meta["val"].dtype == torch.long else _cast(graph, positions, node)
        node.replace_all_uses_with(after)
        graph.graph.erase_node(node)
    if counts:
        graph.recompile()


def _counts_tokens(node: Node, graph: GraphModule) -> bool:
    bounds: list[Any] = [0, *node.args] if node.target is aten.arange.default else list(node.args)
    start, end, step = (*bounds, 1)[:3]
    return start == 0 and step == 1 and isinstance(end, Node) and end in _sizes(graph)


def _sizes(graph: GraphModule) -> set[Node]:
    """The nodes that hold the number of a call's tokens."""
    inputs = [(placeholder(graph, "tokens"), 1), (placeholder(graph, "positions"), 0)]
    return {node for node in nodes_of(graph, aten.sym_size.int) if tuple(node.args) in inputs}


def _cast(graph: GraphModule, positions: Node, node: Node) -> Node:
    with graph.graph.inserting_before(node):
        cast = graph.graph.call_function(aten.to.dtype, (positions, node.meta["val"].dtype))
    cast.meta = dict(node.meta)
    return cast
