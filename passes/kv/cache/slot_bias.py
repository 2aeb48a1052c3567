"""A bias that depends on where query and key stand, for the slots of a cache instead of a call's own keys.

    positions [S] -> column (queries) ---+
    positions [S] -> row (keys) ---------+-> key - query -> ... -> bias [1, H, S, S]
    ==>
    positions [S] -> column (queries) ---+
    0 .. slots - 1 -> row (keys) --------+-> key - query -> ... -> bias [1, H, S, slots]

Model code computes relative positions from the positions of a call's tokens, once as a column (the queries) and once as
a row (the keys). In a full cache the key in a slot has the slot's number as its position. Legality: the bias depends on
nothing but positions and weights, and the copy ends with a value for each slot.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


def is_position_bias(mask: Node, positions: Node) -> bool:
    """Whether a mask [1, H, S, S] is computed from positions and weights alone, with keys as a row."""
    inside = _upstream(mask)
    leaves = [node for node in inside if not node.all_input_nodes and node.op != "get_attr" and node is not positions]
    made = all(node.op == "call_function" for node in leaves)
    return made and mask.meta["val"].dim() == 4 and any(_is_row(node, positions) for node in inside)


def slot_bias(emit: Emitter, mask: Node, positions: Node, slots: int) -> Node:
    """The bias for all slots of a cache, [1, H, S, slots]; the graph's insertion point must lie after ``mask``."""
    inside = set(_upstream(mask))
    copies: dict[Node, Node] = {}
    row = emit(
        aten.unsqueeze.default, emit(aten.arange.default, slots, device=torch.device("cpu"), pin_memory=False), 0
    )
    for node in [node for node in mask.graph.nodes if node in inside]:
        if _is_row(node, positions):
            copies[node] = row
        elif any(source in copies for source in node.all_input_nodes):
            arguments: Any = torch.fx.map_arg((node.args, node.kwargs), lambda source: copies.get(source, source))
            copies[node] = emit(node.target, *arguments[0], **arguments[1])
    return copies[mask]


def _is_row(node: Node, positions: Node) -> bool:
    return node.target is aten.unsqueeze.default and node.args[0] is positions and node.args[1] in (0, -2)


def _upstream(node: Node) -> list[Node]:
    """A node and all that it is computed from."""
    upstream: dict[Node, None] = {}
    pending = [node]
    while pending:
        last = pending.pop()
        if last not in upstream:
            upstream[last] = None
            pending.extend(last.all_input_nodes)
    return list(upstream)
