"""Modules whose results differ in number with what they see, and what they return instead."""

from __future__ import annotations

import operator

from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from edgec.errors import InputError

_BEST = "return the best of a fixed number (torch.topk), and let the app drop what lies below its threshold"
_MARKED = "return the likeliest symbol of each step with repeats set to the blank, and let the app drop blanks"
_ALONE = "return the best boxes of a fixed number with a mark for those that overlap no better one"
# By a part of the operator's name; the first one counts.
_INSTEAD = (("nms", _ALONE), ("unique", _MARKED), ("", _BEST))


def refuse_sizes_by_value(graph: GraphModule, where: str) -> None:
    """Refuse a captured module in which the size of a value depends on another value: no device plans memory for it.

    Raises:
        InputError: E946.
    """
    for node in graph.graph.nodes:
        if isinstance(value := node.meta.get("val"), Tensor) and free_unbacked_symbols(value):
            raise _sized_by_values(node, where)


def _sized_by_values(node: Node, where: str) -> InputError:
    # What picks one of several results tells nothing.
    named = node.all_input_nodes[0] if node.target is operator.getitem else node
    name = str(getattr(getattr(named.target, "_schema", None), "name", named.name)).split("::")[-1]
    return InputError(
        what=f"{name} gives as many results as the input's values decide",
        where=where,
        why=f"the size of {node.name} depends on values, and no phone plans memory for it",
        fix=f"{next(instead for part, instead in _INSTEAD if part in name)}: docs/modules.md, After the network",
        code="E946",
    )
