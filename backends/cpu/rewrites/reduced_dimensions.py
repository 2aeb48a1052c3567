"""Maxima along a dimension in the form that ExecuTorch's lowering to XNNPACK takes.

    max(x, dim)[0]      ==>      squeeze(amax(x, dim, keepdim=True), dim)

The partitioner takes ``max`` along a dimension of four as ``amax`` and then fails on it, since it expects the reduced
dimension to be kept. Legality: the places of the maxima are not read. Exact. Measured on a tiny Hiera: its export
ended in "amax.default only supports keep_dim == True".
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


def keep_reduced_dimensions(graph: GraphModule) -> None:
    """Replace each maximum along a dimension whose places nobody reads."""
    for node in nodes_of(graph, aten.max.dim):
        if all(user.target is operator.getitem and (user.args[1] == 0 or not user.users) for user in node.users):
            _replace(graph, node)


def _replace(graph: GraphModule, node: Node) -> None:
    source, dim, *kept = node.args
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        largest = emit(aten.amax.default, source, [dim], True)
        value = largest if kept and kept[0] else emit(aten.squeeze.dim, largest, dim)
    for user in list(node.users):
        user.replace_all_uses_with(value)
        graph.graph.erase_node(user)
    graph.graph.erase_node(node)
