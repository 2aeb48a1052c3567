"""The buffers that a cache pass adds to a graph, and their description."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attention import AttentionCall
from edgec.ir.kv_layout import CacheLayout
from edgec.ir.program import State


@dataclass
class States:
    """Registers the states of a cache, [1, slots, G, width], on a graph and describes them."""

    graph: GraphModule
    described: list[State] = field(default_factory=list)

    def add(self, call: AttentionCall, role: str, where: CacheLayout, width: int, dtype: torch.dtype) -> Node:
        """Add a state for one attention node, of which a layer may have several; returns the node that reads it."""
        shape = (1, where.slots, int(call.k.meta["val"].shape[1]), width)
        before = sum((state.layer, state.role) == (call.layer, role) for state in self.described)
        name = f"{role}_cache_{call.layer}" + (f"_{before}" if before else "")
        value = torch.zeros(shape, dtype=dtype)
        self.graph.register_buffer(name, value)
        geometry = (where.kind, where.slots, where.window, where.sink)
        self.described.append(State(name, call.layer, role, dtype, shape, *geometry))
        node = self.graph.graph.get_attr(name)
        node.meta["val"] = call.k.meta["val"].fake_mode.from_tensor(value)
        return node
