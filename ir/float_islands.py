"""Nodes of a graph that compute in float32 where all others compute in float16."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute
from edgec.ir.node_layers import KEPT


def keep_float(node: Node) -> None:
    """Have a call compute in float32 where its graph becomes float16."""
    node.meta[KEPT] = True


def is_kept(node: Node) -> bool:
    """Whether a call computes in float32."""
    return bool(node.meta.get(KEPT))


def kept_constants(graph: GraphModule) -> Collection[str]:
    """The names of the float32 tensors that such calls alone read: they stay as they are."""
    readers: dict[str, list[Node]] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            readers.setdefault(str(node.target), []).extend(node.users)
    return {name for name, users in readers.items() if users and all(map(is_kept, users)) and _is_float(graph, name)}


def _is_float(graph: GraphModule, name: str) -> bool:
    value: Any = attribute(graph, name)
    return isinstance(value, Tensor) and value.dtype is torch.float32
