"""The layer that each node of a graph came from: its module's path and its operator, kept through passes.

    encoder.0.norm:layer_norm    ==> fp16_safe_norm ==>    mean, sub, abs, amax, ..., all of encoder.0.norm:layer_norm

A pass writes a layer out in other operators, and a person who keeps it in float32 knows it by the module's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

from torch.fx import GraphModule, Node

_LAYER = "edgec_module_layer"
KEPT = "edgec_keep_float"
"""The note of a node that computes in float32 (``ir/float_islands.py``)."""
Notes = Mapping[str, Any]


def name_layers(graph: GraphModule) -> None:
    """Note of each call in a captured graph which layer it belongs to, as its trace says."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and (stack := node.meta.get("nn_module_stack")):
            path = str(list(stack.values())[-1][0]).removeprefix("L['self']").removeprefix(".")
            node.meta[_LAYER] = f"{path}:{_operator(node.target)}"


def _operator(target: Any) -> str:
    """An operator's name without namespace and overload: ``softmax`` of ``aten.softmax.int``."""
    return str(getattr(target, "__name__", target)).split(".")[0]


def layer_of(node: Node) -> str:
    """``PATH:OPERATOR`` of the layer that a node came from, with an empty path in the outermost module; else empty."""
    return str(node.meta.get(_LAYER, ""))


def matches(layer: str, pattern: str) -> bool:
    """Whether a pattern names a layer or a module around it.

    Args:
        layer: ``PATH:OPERATOR``.
        pattern: a path (``encoder.*.norm``), with a colon and an operator for that one alone (``attention:softmax``).
    """
    path, _, operator = layer.partition(":")
    wanted, colon, kind = pattern.partition(":")
    if colon:
        return fnmatchcase(path, wanted) and fnmatchcase(operator, kind)
    parts = path.split(".")
    return any(fnmatchcase(".".join(parts[:count]), wanted) for count in range(1, len(parts) + 1))


@contextmanager
def followed_layers(graph: GraphModule) -> Iterator[None]:
    """Give nodes that are made meanwhile the layer of those that they take the place of, and what was noted of it."""
    if not any(_LAYER in node.meta for node in graph.graph.nodes):
        yield
        return
    made: dict[Node, Notes] = {}
    replaced: dict[str, Notes] = {}

    def make(node: Node) -> None:
        # Nodes are inserted before or after the one that they are made for.
        place = getattr(node.graph._insert, "__self__", None)
        made[node] = _notes(place) if isinstance(place, Node) else {}

    def replace(old: Node, new: str, user: Node) -> None:
        if notes := _notes(old):
            replaced.setdefault(new, notes)

    graph._register_create_node_hook(make)
    graph._register_replace_node_hook(replace)
    try:
        yield
    finally:
        graph._unregister_create_node_hook(make)
        graph._unregister_replace_node_hook(replace)
    _settle(
        {node: notes for node, notes in made.items() if node.op == "call_function" and not layer_of(node)}, replaced
    )


def _settle(made: Mapping[Node, Notes], replaced: Mapping[str, Notes]) -> None:
    """Note the layers of new nodes: of what each replaces, else of its place, else of its readers or what it reads."""
    for node in reversed(list(made)):
        node.meta |= replaced.get(node.name) or made[node] or _first(node.users) or _first(node.all_input_nodes)


def _notes(node: Node) -> Notes:
    return {key: node.meta[key] for key in (_LAYER, KEPT) if key in node.meta} if layer_of(node) else {}


def _first(nodes: Iterable[Node]) -> Notes:
    return next(filter(None, map(_notes, nodes)), {})
