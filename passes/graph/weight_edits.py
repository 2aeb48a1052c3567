"""Replace the values of a layer's parameters: the building blocks of exact rewrites of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute, owner_of, set_parameter
from edgec.ir.quantized_form import drop_if_unused, parameter_of

Edit = Callable[[Tensor], Tensor]


def constant(graph: GraphModule, node: Node) -> Tensor:
    """The value of an expression of parameters (Gemma's ``1 + weight``), float32."""
    if node.op == "get_attr":
        held: Tensor = attribute(graph, str(node.target))
        return held.detach().float()
    function: Any = node.target
    value: Tensor = function(*map_arg(node.args, lambda source: constant(graph, source)), **node.kwargs)
    return value


def is_constant(node: object) -> bool:
    """Whether a node depends on parameters alone."""
    if not isinstance(node, Node):
        return False
    waiting, seen = [node], {node}
    while waiting:
        each = waiting.pop()
        if each.op != "get_attr" and (each.op != "call_function" or not each.all_input_nodes):
            return False
        fresh = [source for source in each.all_input_nodes if source not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return True


def edit(graph: GraphModule, node: Node, place: int, change: Edit) -> None:
    """Replace a parameter that is an argument of an operator; its other readers keep the old one.

    Args:
        graph: holds the parameter; the new one is float32, and keeps the name where nothing else reads the old one.
        node: the operator.
        place: which argument.
        change: the new values from the old ones, float32.
    """
    old = node.args[place]
    assert isinstance(old, Node)
    with torch.no_grad():
        value = change(constant(graph, old)).contiguous()
    leaf = next(each for each in _with_sources(old) if each.op == "get_attr")
    target = str(leaf.target) if _has_one_reader(graph, leaf, old, node) else f"{leaf.target}_{node.name}"
    with graph.graph.inserting_before(node):
        node.update_arg(place, parameter(graph, target, value, like=old))
    drop_if_unused(graph, *_with_sources(old))


def parameter(graph: GraphModule, target: str, value: Tensor, like: Node) -> Node:
    """Register a parameter and read it at the current insertion point.

    Args:
        graph: where it is held.
        target: its name.
        value: float32.
        like: a node whose fake mode the new one's value belongs to.
    """
    set_parameter(graph, target, nn.Parameter(value, requires_grad=False))
    node = graph.graph.get_attr(target)
    mode = getattr(like.meta.get("val"), "fake_mode", None)
    node.meta["val"] = mode.from_tensor(value, static_shapes=True) if mode is not None else value
    return node


def _with_sources(node: Node) -> list[Node]:
    """A node and everything it is computed from, nearest first."""
    return [node, *(source for each in node.all_input_nodes for source in _with_sources(each))]


def _has_one_reader(graph: GraphModule, leaf: Node, old: Node, node: Node) -> bool:
    """Whether only one argument reads a parameter, directly or through a cast."""
    same = [each for each in graph.graph.nodes if each.op == "get_attr" and each.target == leaf.target]
    return parameter_of(old) is leaf and same == [leaf] and set(leaf.users) <= {old, node} and set(old.users) == {node}


def is_tied(graph: GraphModule, node: Node, place: int) -> bool:
    """Whether a matrix is both looked up and multiplied with."""
    leaf = node.args[place]
    while isinstance(leaf, Node) and leaf.op != "get_attr":
        leaf = leaf.args[0]
    assert isinstance(leaf, Node)
    held = _held(graph, str(leaf.target))
    same = [n for n in graph.graph.nodes if n.op == "get_attr" and _held(graph, str(n.target)) is held]
    direct = {user for each in same for user in each.users}
    casts = {user for user in direct if user.target is torch.ops.aten.to.dtype}
    return len({user.target for user in direct - casts} | {user.target for cast in casts for user in cast.users}) > 1


def _held(graph: GraphModule, target: str) -> object:
    module, leaf = owner_of(graph, target)
    return module._parameters.get(leaf)
