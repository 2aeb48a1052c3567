"""Numbers that a module reads out of its constants: known when it is captured.

    x.roll(-round(self.shift.item() * 3), -1)   ==>   x.roll(-12, -1)

``torch.export`` keeps ``item()`` of a buffer as a number that only a run decides, which no runtime's operators take.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute

_CHECKS = ("aten::_assert_scalar", "aten::sym_constrain_range", "aten::sym_constrain_range_for_size")
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)


def settle_known_numbers(graph: GraphModule) -> None:
    """Put numbers in the place of nodes that compute them from constants alone, and drop checks of them."""
    varying: set[Node] = set()
    settled = False
    for node in list(graph.graph.nodes):
        if _varies(node, varying):
            varying.add(node)
        elif node.op == "call_function" and isinstance(node.meta.get("val"), _NUMBERS):
            _replace_by_number(node, constant_value(graph, node))
            settled = True
        elif _is_check(node):
            graph.graph.erase_node(node)
    if settled:
        graph.graph.eliminate_dead_code()


def constant_value(graph: GraphModule, node: Node) -> Any:
    """The value of a node that reads constants alone; None where it depends on an input."""
    if node.op == "get_attr":
        value: Tensor = attribute(graph, str(node.target))
        return value.detach()
    sources = {each: constant_value(graph, each) for each in node.all_input_nodes}
    if node.op != "call_function" or any(each is None for each in sources.values()):
        return None
    function: Any = node.target
    return function(*map_arg(node.args, sources.get), **map_arg(node.kwargs, sources.get))


def _varies(node: Node, varying: set[Node]) -> bool:
    """Whether a node's value depends on an input, or on chance."""
    if node.op not in ("call_function", "get_attr"):
        return True
    by_chance = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return by_chance or any(each in varying for each in node.all_input_nodes)


def _replace_by_number(node: Node, number: Any) -> None:
    """Give a number to all that read a node."""

    def settled(each: Node) -> Any:
        return number if each is node else each

    for user in [*node.users]:
        user.args, user.kwargs = map_arg(user.args, settled), map_arg(user.kwargs, settled)


def _is_check(node: Node) -> bool:
    """Whether a node checks numbers that are all known."""
    name = str(getattr(getattr(node.target, "_schema", None), "name", ""))
    return name in _CHECKS and not node.all_input_nodes
