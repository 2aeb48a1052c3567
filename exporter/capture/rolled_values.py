"""Rolled values as two slices, the other way around.

    roll(x, -20, -1)   ==>   cat([slice(x, -1, 20, 384), slice(x, -1, 0, 20)], -1)

Core ML's converter makes a table of indices of it, bytes that belong to none of the weights (E210). Exact, for fixed
sizes.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


def write_out_rolls(graph: GraphModule) -> None:
    """Replace rolls of known shifts along named dimensions of fixed sizes."""
    for node in list(graph.graph.find_nodes(op="call_function", target=aten.roll.default)):
        shifts, dims = node.args[1], node.args[2] if len(node.args) > 2 else ()
        if dims and all(isinstance(each, int) for each in (*shifts, *node.meta["val"].shape)):
            with graph.graph.inserting_before(node):
                rolled = node.args[0]
                for shift, dim in zip(shifts, dims, strict=True):
                    rolled = _rolled(Emitter(graph.graph), node, rolled, shift, dim)
            node.replace_all_uses_with(rolled)
            graph.graph.erase_node(node)


def _rolled(emit: Emitter, like: Node, x: Node, shift: int, dim: int) -> Node:
    """A value rolled along one dimension, as a part of a node's layer."""
    size = like.meta["val"].shape[dim]
    first = -shift % size if size else 0
    if not first:
        return x
    parts = [emit(aten.slice.Tensor, x, dim, start, end) for start, end in ((first, size), (0, first))]
    rolled = emit(aten.cat.default, parts, dim)
    for node in (*parts, rolled):
        node.meta = {**like.meta, "val": node.meta["val"]}
    return rolled
