"""Values of a graph that follow from positions alone: which they are, and what they are at given positions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
# Angles, and the logarithm by which Ministral 3 and Llama 4 scale queries.
_COMPUTED = (aten.cos.default, aten.sin.default, aten.log.default)


def positional(graph: GraphModule, positions: Node) -> set[Node]:
    """The values that depend on positions and on nothing else that varies."""
    found, fixed = {positions}, set[Node]()
    for node in graph.graph.nodes:
        varying = [source for source in node.all_input_nodes if source not in fixed]
        if node.op == "get_attr" or (node.op == "call_function" and not varying):
            fixed.add(node)
        elif node.op == "call_function" and all(source in found for source in varying):
            found.add(node)
    return found


def frontier(graph: GraphModule, values: Collection[Node]) -> list[Node]:
    """Those of ``positional`` that hold a sine, cosine or logarithm and are read by something else."""
    held: set[Node] = set(nodes_of(graph, *_COMPUTED)) & set(values)
    for node in graph.graph.nodes:
        if node in values and any(source in held for source in node.all_input_nodes):
            held.add(node)
    return [node for node in graph.graph.nodes if node in held and any(user not in values for user in node.users)]


def computed(graph: GraphModule, node: Node, given: Mapping[Node, Tensor]) -> Tensor:
    """A value, where ``given`` has those of the positions that it depends on."""
    memo: dict[Node, Any] = dict(given)

    def value(source: Node) -> Any:
        if source not in memo:
            memo[source] = _evaluate(graph, source, value)
        return memo[source]

    with torch.no_grad():
        result: Tensor = value(node)
    return result


def _evaluate(graph: GraphModule, node: Node, value: Any) -> Any:
    if node.op == "get_attr":
        return attribute(graph, str(node.target))
    args, kwargs = map_arg((node.args, node.kwargs), value)
    function: Any = node.target
    return function(*args, **kwargs)
