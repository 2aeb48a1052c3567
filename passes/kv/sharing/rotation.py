"""Compare how layers rotate their keys: two layers may share keys only if they rotate them alike.

A key is rotated with (cos and sin) those nodes on its way from the projection that are computed from ``positions`` and
constants alone. Their expressions are compared, constants by content: layers of one RoPE base agree
even where each computes cos and sin for itself; layers of another base (Gemma 3: 10,000 and 1,000,000) do not, nor do
layers without rotation (SmolLM3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import parameter_of

aten = torch.ops.aten


def rotations(graph: GraphModule, keys: Mapping[int, Node]) -> dict[int, frozenset[str]]:
    """For each layer's keys, digests of the position-dependent values they are made with; equal for equal rotation."""
    origins = _origins(graph)
    return {layer: frozenset(_digest(graph, node) for node in _positional(key, origins)) for layer, key in keys.items()}


def _origins(graph: GraphModule) -> dict[Node, frozenset[str]]:
    """The graph inputs whose values (not sizes) each node depends on."""
    origins: dict[Node, frozenset[str]] = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            origins[node] = frozenset({str(node.target)})
        elif node.target is aten.sym_size.int:
            origins[node] = frozenset()
        else:
            origins[node] = frozenset().union(*(origins[source] for source in node.all_input_nodes))
    return origins


def _positional(key: Node, origins: Mapping[Node, frozenset[str]]) -> set[Node]:
    """The values computed from positions alone that enter a key after its projection."""
    positional: set[Node] = set()
    seen: set[Node] = set()
    pending = [key]
    while pending:
        node = pending.pop()
        if node in seen or _projects(node):
            continue
        seen.add(node)
        if origins[node] == {"positions"}:
            positional.add(node)
        else:
            pending.extend(node.all_input_nodes)
    return positional


def _projects(node: Node) -> bool:
    """Whether a node is a projection, which reads the hidden state and so depends on everything."""
    return node.target is aten.linear.default and parameter_of(node.args[1]) is not None


def _digest(graph: GraphModule, node: Node) -> str:
    """A digest of the expression that computes a node; constants count by content, not by name."""
    if node.op == "placeholder" or node.target is aten.sym_size.int:
        return str(node.target)
    if node.op == "get_attr":
        value = attribute(graph, str(node.target))
        plain = value.detach().float().contiguous().numpy().tobytes()
        return hashlib.sha256(plain + str(tuple(value.shape)).encode()).hexdigest()
    operands: Any = map_arg((node.args, node.kwargs), lambda source: _digest(graph, source))
    return hashlib.sha256(f"{node.target}{operands}".encode()).hexdigest()
