"""The buffers that a cache pass adds to a graph, and their description."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attention import AttentionCall
from edgec.ir.kv_layout import CacheLayout
from edgec.ir.program import Layout, State


@dataclass
class States:
    """Registers the states of a cache, [1, slots, G, width], on a graph and describes them."""

    graph: GraphModule
    described: list[State] = field(default_factory=list)

    def recurrent(
        self, layer: int, role: str, shape: tuple[int, ...], like: Node, *, slots: int = 1, count: bool = False
    ) -> Node:
        """Add what a recurrence remembers, float32 (a ``count``: int64) [1, slots, ...]; returns its node."""
        dtype = torch.int64 if count else torch.float32
        state = State(self._name(f"{role}_{layer}"), layer, role, dtype, (1, slots, *shape), "recurrent", slots)
        return self._registered(state, like)

    def add(self, call: AttentionCall, role: str, where: CacheLayout, width: int, dtype: torch.dtype) -> Node:
        """Add a state for one attention node, of which a layer may have several; returns the node that reads it."""
        shape = (1, where.slots, int(call.k.meta["val"].shape[1]), width)
        name = self._name(f"{role}_cache_{call.layer}")
        kind: Layout = "ring" if where.kind == "ring" else "full"
        state = State(name, call.layer, role, dtype, shape, kind, where.slots, where.window, where.sink)
        return self._registered(state, call.k)

    def _name(self, first: str) -> str:
        """The name of the next state of a layer and role: the first one's, then with a number."""
        before = sum(state.buffer == first or state.buffer.startswith(f"{first}_") for state in self.described)
        return first + (f"_{before}" if before else "")

    def _registered(self, state: State, like: Node) -> Node:
        value = torch.zeros(state.shape, dtype=state.dtype)
        self.graph.register_buffer(state.buffer, value)
        self.described.append(state)
        node = self.graph.graph.get_attr(state.buffer)
        node.meta["val"] = like.meta["val"].fake_mode.from_tensor(value)
        return node
