"""Insert operators into a graph together with the fake value that later passes read (``meta["val"]``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg


@dataclass(frozen=True)
class Emitter:
    """Calls operators at the graph's present insertion point."""

    graph: Graph

    def __call__(self, operator: Any, *args: Any, **kwargs: Any) -> Node:
        """Append ``operator(*args)``; its fake value is computed when all inputs have one."""
        node = self.graph.call_function(operator, args, kwargs)
        if all("val" in source.meta for source in node.all_input_nodes):
            values = map_arg((args, kwargs), lambda source: source.meta["val"])
            node.meta["val"] = operator(*values[0], **values[1])
        return node

    def size(self, tensor: Node, dim: int) -> int | Node:
        """A dimension: the number where it is static, else a ``sym_size`` node."""
        value = tensor.meta["val"].shape[dim]
        return value if isinstance(value, int) else self(torch.ops.aten.sym_size.int, tensor, dim)


def shared_constant(graph: GraphModule, emit: Emitter, name: str, value: Tensor, beside: Node) -> Node:
    """A node that reads a constant of the graph; those of one name share it.

    Args:
        graph: gets the constant as a buffer, once.
        emit: where the node goes.
        name: the buffer's.
        value: any shape and dtype.
        beside: a node with a fake value of the mode that the constant's value joins.
    """
    if not hasattr(graph, name):
        graph.register_buffer(name, value)
    node = emit.graph.get_attr(name)
    node.meta["val"] = beside.meta["val"].fake_mode.from_tensor(value, static_shapes=True)
    return node
