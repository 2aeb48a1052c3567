"""The share of each stored tensor that one token reads: chosen experts of all, one row of a table, else the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute
from edgec.ir.experts import EXPERTS, ExpertsCall

_LOOKUP = torch.ops.aten.embedding.default
_VIEW = torch.ops.aten.view.default


def active_shares(graph: GraphModule) -> Mapping[str, float]:
    """The share, 0..1, of every tensor that a graph stores; of several readers the one that reads most counts."""
    shares: dict[str, float] = {}
    stored: dict[Node, frozenset[str]] = {}
    for node in graph.graph.nodes:
        sources = node.all_input_nodes
        if node.op == "get_attr":
            stored[node] = frozenset({str(node.target)})
        elif sources and all(source in stored for source in sources):
            stored[node] = frozenset().union(*(stored[source] for source in sources))
        else:
            for source in (source for source in sources if source in stored):
                share = _share(graph, node, source)
                shares |= {name: max(share, shares.get(name, 0.0)) for name in stored[source]}
    return shares


def _share(graph: GraphModule, reader: Node, source: Node) -> float:
    """The share of a stored value that a node reads for one token."""
    if reader.target is EXPERTS:
        call = ExpertsCall.of(reader)
        chosen = int(call.index.meta["val"].shape[1])
        return min(1.0, chosen / _entries(graph, call.weight)) if source in (call.weight, call.bias) else 1.0
    if reader.target is _LOOKUP and reader.args[0] is source:
        return 1.0 / _entries(graph, source)
    return 1.0


def _entries(graph: GraphModule, node: Node) -> int:
    """The size of a stored value's first dimension; nodes that passes made need not know their shapes."""
    if node.op == "get_attr":
        return max(1, int(attribute(graph, str(node.target)).shape[0]))
    if node.target is _VIEW:
        shape: Any = node.args[1]
        return max(1, int(shape[0]))
    value = node.meta.get("val")
    return max(1, int(value.shape[0])) if value is not None else _entries(graph, node.all_input_nodes[0])
