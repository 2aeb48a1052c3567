"""Serve a KV cache with edgec's own kernels: one call writes, one attends, whatever the dtype and layout.

    k, v -> edgec::cache_write(K_state), edgec::cache_write(V_state)
    q -> edgec::cached_attention(q, positions, K_state, V_state) -> out
    q -> edgec::biased_attention(q, positions, K_state, V_state, bias of the slots) -> out       relative positions

States are [1, slots, G, D] in float32, float16 or int8, or [1, slots, G, D/2] in int4, with a float16 grid of scales
and offsets for the integers (``operators.py``). Nothing is masked: the kernel knows which slot holds which position.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attention import LAYER, SPAN_END, AttentionCall
from edgec.ir.encoder_operators import BIASED_ATTENTION
from edgec.ir.kv_layout import CacheLayout
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION, grid_group
from edgec.passes.contract import placeholder
from edgec.passes.fuse.fuse_rope import swap_axes
from edgec.passes.graph.emit import Emitter
from edgec.passes.kv.cache.kv_states import States
from edgec.passes.kv.cache.slot_bias import slot_bias

DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.int8, "int4": torch.uint8}
Held = tuple[Node, Node | None]


@dataclass
class OwnCache:
    """Rewrites the attention nodes of one graph to edgec's kernels.

    Attributes:
        graph: changed in place.
        states: the caches so far.
        dtype: float32, float16, int8 or int4.
    """

    graph: GraphModule
    states: States
    dtype: str
    caches: dict[tuple[Node, Node], tuple[Held, Held]] = field(default_factory=dict)
    biases: dict[Node, Node] = field(default_factory=dict)

    def replace(self, node: Node, where: CacheLayout) -> None:
        """Replace an attention node by edgec's kernels; layers that read the same k and v share a cache."""
        call = AttentionCall.of(node)
        with self.graph.graph.inserting_before(node):
            emit = Emitter(self.graph.graph)
            key = (call.k, call.v)
            if key not in self.caches:
                self.caches[key] = (
                    self._write(emit, call, "key", call.k, where),
                    self._write(emit, call, "value", call.v, where),
                )
            result = self._attend(emit, call, self.caches[key], where)
        result.meta[LAYER] = call.layer
        node.replace_all_uses_with(result)
        self.graph.graph.erase_node(node)

    def _attend(self, emit: Emitter, call: AttentionCall, held: tuple[Held, Held], where: CacheLayout) -> Node:
        (keys, key_grid), (values, value_grid) = held
        q, caches = swap_axes(emit, call.q), (keys, values, key_grid, value_grid)
        if call.mask is not None:
            # Layers that share a bias read the copy that the first of them needed.
            if call.mask not in self.biases:
                self.biases[call.mask] = slot_bias(emit, call.mask, call.positions, where.slots)
            return emit(BIASED_ATTENTION, q, call.positions, *caches, self.biases[call.mask], call.scale)
        return emit(
            CACHED_ATTENTION,
            *(q, call.positions, self._written(call), *caches),
            *(call.scale, _window(where), _ring(where), where.sink, call.softcap, call.sink_logits),
        )

    def _write(self, emit: Emitter, call: AttentionCall, role: str, value: Node, where: CacheLayout) -> Held:
        width, dtype = int(value.meta["val"].shape[3]), DTYPES[self.dtype]
        cache = self.states.add(call, role, where, width // 2 if self.dtype == "int4" else width, dtype)
        grid = None
        if self.dtype in ("int8", "int4"):
            grid = self.states.add(call, f"{role}_grid", where, 2 * width // grid_group(dtype, width), torch.float16)
        emit(CACHE_WRITE, swap_axes(emit, value), self._written(call), cache, grid, _ring(where), where.sink)
        return cache, grid

    def _written(self, call: AttentionCall) -> Node:
        """The positions that a call's keys and values have, where its queries are asked by how far they see."""
        return placeholder(self.graph, "positions") if call.positions.target == SPAN_END else call.positions


def _window(where: CacheLayout) -> int:
    """The kernel's window: 0 for all earlier tokens, below 0 for chunks."""
    return -(where.window or 0) if where.chunked else where.window or 0


def _ring(where: CacheLayout) -> int:
    """The slots of the ring; 0 where a slot is a position."""
    return where.ring if where.kind == "ring" else 0
