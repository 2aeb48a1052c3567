"""A cluster of nodes as a separate module, in a form that is equal for equal layers."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node


@dataclass(frozen=True)
class DelegateRegion:
    """A cluster taken out of its graph.

    Attributes:
        module: inputs ``x0, x1, ...``; constants are buffers ``c0, c1, ...``; returns a tuple.
        inputs: the nodes of the outer graph that feed it, in order.
        outputs: the nodes of the cluster that others read, in order.
        constants: the outer attribute name of each constant.
        signature: equal exactly when two regions differ in nothing but their constants' values.
    """

    module: GraphModule
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    constants: tuple[str, ...]
    signature: str


def border(cluster: Sequence[Node], constants: Collection[Node]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The nodes that feed a cluster, the graph's constants apart, and its nodes that others read; each in order."""
    inside = set(cluster)
    sources = (s for node in cluster for s in node.all_input_nodes if s not in inside and s not in constants)
    outputs = tuple(n for n in cluster if any(user not in inside for user in n.users))
    return tuple(dict.fromkeys(sources)), outputs


def extract(owner: GraphModule, cluster: list[Node], constants: Collection[Node]) -> DelegateRegion:
    """Copy a cluster, and those of its graph's constants that it reads, into a region."""
    body = [*_read_constants(cluster, constants), *cluster]
    inputs, outputs = border(cluster, constants)
    graph, root = Graph(), torch.nn.Module()
    names: list[str] = []
    mapping: dict[Node, Node] = {}
    for index, node in enumerate(inputs):
        mapping[node] = graph.placeholder(f"x{index}")
    for node in body:
        if node.op == "get_attr":
            value, name = operator.attrgetter(str(node.target))(owner), f"c{len(names)}"
            root.register_buffer(name, value.detach() if isinstance(value, Tensor) else value)
            mapping[node] = graph.get_attr(name)
            names.append(str(node.target))
        else:
            mapping[node] = graph.node_copy(node, mapping.__getitem__)
    graph.output(tuple(mapping[node] for node in outputs))
    module = GraphModule(root, graph)
    return DelegateRegion(module, inputs, outputs, tuple(names), _signature(module, inputs))


def _read_constants(cluster: list[Node], constants: Collection[Node]) -> list[Node]:
    """The constant nodes that the cluster reads, producers first."""
    found: dict[Node, None] = {}
    for source in (source for node in cluster for source in node.all_input_nodes if source in constants):
        waiting = [source]
        while waiting:
            producer = next((each for each in waiting[-1].all_input_nodes if each not in found), None)
            if producer is None:
                found[waiting.pop()] = None
            else:
                waiting.append(producer)
    return list(found)


def shape_of(node: Node) -> tuple[int | str, ...]:
    """A node's shape, with the symbol of each varying dimension."""
    return tuple(int(d) if isinstance(d, int) else str(d) for d in node.meta["val"].shape)


def _signature(module: GraphModule, inputs: tuple[Node, ...]) -> str:
    nodes = [(node, node.target if node.op == "call_function" else node.op) for node in _renamed(module.graph).nodes]
    lines = [f"{node.op} {target} {node.args} {node.kwargs}" for node, target in nodes]
    lines += [f"{name} {tuple(buffer.shape)} {buffer.dtype}" for name, buffer in module.named_buffers()]
    lines += [f"{shape_of(node)} {node.meta['val'].dtype}" for node in inputs]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _renamed(graph: Graph) -> Graph:
    """A copy of the graph whose nodes are numbered, so that a layer's number does not show in their names."""
    copied = Graph()
    mapping: dict[Node, Node] = {}
    for node in graph.nodes:
        copy = copied.node_copy(node, mapping.__getitem__)
        copy.name = f"n{len(mapping)}"
        mapping[node] = copy
    return copied
