"""Give every node of a graph its fake value for inputs of known shapes; sizes become numbers.

x [1,64,H] -> sym_size(1) -> view(x, [1, s, 16, 32])          ==>          view(x, [1, 64, 16, 32])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.attributes import attribute


def fix_shapes(graph: GraphModule, inputs: Mapping[str, Tensor]) -> None:
    """Recompute ``meta["val"]`` of every node and replace computed sizes by their values.

    Args:
        graph: changed in place.
        inputs: an example of each input, by name; only dtype and shape count.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        for node in list(graph.graph.nodes):
            value = _value(graph, node, inputs, mode)
            if isinstance(value, int | float | bool):
                _replace_by_number(graph, node, value)
            elif node.op != "output":
                node.meta["val"] = value


def _value(graph: GraphModule, node: Node, inputs: Mapping[str, Tensor], mode: Any) -> Any:
    if node.op == "placeholder":
        return mode.from_tensor(inputs[str(node.target)], static_shapes=True)
    if node.op == "get_attr":
        return mode.from_tensor(attribute(graph, str(node.target)), static_shapes=True)
    if node.op == "output":
        return None
    args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
    function: Any = node.target
    return function(*args, **kwargs)


def _replace_by_number(graph: GraphModule, node: Node, value: float) -> None:
    for user in list(node.users):
        user.args = map_arg(user.args, lambda source: value if source is node else source)
        user.kwargs = map_arg(user.kwargs, lambda source: value if source is node else source)
    graph.graph.erase_node(node)
