"""Serve a KV cache with ExecuTorch's own kernels, which every app with ExecuTorch has.

    k -> llama::update_cache(K_state) ; v -> llama::update_cache(V_state)           writes this call's tokens only
    q, K_state, V_state -> llama::custom_sdpa(start or mask) -> out

States are [1, slots, G, D]: float32, or int8 with a float32 scale and an int8 zero point per token and head,
[1, slots, G, 1]. Windows and rings are masks over all slots, built once per call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from edgec.ir.attention import LAYER, AttentionCall
from edgec.ir.kv_layout import CacheLayout, additive_mask, emit, write_slots
from edgec.passes.contract import last_placeholder
from edgec.passes.kv.cache.kv_states import States

aten = torch.ops.aten
DTYPES = {"float32": torch.float32, "int8": torch.int8}


@dataclass
class StandardCache:
    """Rewrites the attention nodes of one graph to ExecuTorch's kernels; layers share what they can.

    Attributes:
        graph: changed in place.
        states: the caches so far.
        dtype: float32 or int8; float16 is 10 to 50 times as slow in ExecuTorch's attention.
    """

    graph: GraphModule
    states: States
    dtype: str
    caches: dict[tuple[Node, Node], tuple[Node, ...]] = field(default_factory=dict)
    shared: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Load ExecuTorch's operators, here because its library is heavy."""
        import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401

    def replace(self, node: Node, where: CacheLayout) -> None:
        """Replace an attention node by ExecuTorch's kernels; layers that read the same k and v share a cache."""
        call = AttentionCall.of(node)
        start = self._once(("start",), call, lambda: self._start(call))
        mask = self._once(("mask", where), call, lambda: self._mask(where, call)) if where.masked else None
        slots = self._once(("slots", where), call, lambda: self._slots(where, call)) if where.kind == "ring" else None
        with self.graph.graph.inserting_before(node):
            key = (call.k, call.v)
            if key not in self.caches:
                self.caches[key] = self._write(call, where, start, slots)
            result = self._attend(call, self.caches[key], start, mask)
        result.meta = {**node.meta, LAYER: call.layer}
        node.replace_all_uses_with(result)
        self.graph.graph.erase_node(node)

    def _once(self, key: tuple[object, ...], call: AttentionCall, make: Callable[[], Node]) -> Node:
        """Build a value that all layers read, right after the inputs."""
        if key not in self.shared:
            with self.graph.graph.inserting_after(last_placeholder(self.graph)):
                marker = self.graph.graph.call_function(aten.alias.default, (call.positions,))
            with self.graph.graph.inserting_before(marker):
                self.shared[key] = make()
            self.graph.graph.erase_node(marker)
        return self.shared[key]

    def _start(self, call: AttentionCall) -> Node:
        first = self._call(aten.select.int, call.positions, 0, 0)
        return self._call(aten.item.default, first)

    def _mask(self, where: CacheLayout, call: AttentionCall) -> Node:
        return self._traced(lambda positions: additive_mask(where, positions, torch.float32), call)

    def _slots(self, where: CacheLayout, call: AttentionCall) -> Node:
        return self._traced(lambda positions: write_slots(where, positions).unsqueeze(0), call)

    def _traced(self, function: Callable[[Tensor], Tensor], call: AttentionCall) -> Node:
        """The nodes of a function of the positions; nothing in it depends on how many there are."""
        traced = make_fx(function)(torch.arange(3))
        traced.graph.eliminate_dead_code()
        return emit(self.graph.graph, traced, call.positions)

    def _write(self, call: AttentionCall, where: CacheLayout, start: Node, slots: Node | None) -> tuple[Node, ...]:
        parts = [part for role, value in (("key", call.k), ("value", call.v)) for part in self._encode(role, value)]
        held = [self._state(call, role, where) for role, _ in parts]
        for (_, value), state in zip(parts, held, strict=True):
            if slots is None:
                self._call(torch.ops.llama.update_cache.default, value, state, start)
            else:
                # With explicit slots the kernel ignores the start, so any valid one serves.
                self._call(torch.ops.llama.update_cache_with_indices.default, value, state, 0, slots)
        return tuple(held)

    def _encode(self, role: str, value: Node) -> list[tuple[str, Node]]:
        """The tensors a key or value is stored as, in the cache's layout [1, S, G, ...], with their dtypes."""
        rows = self._call(aten.transpose.int, value, 1, 2)
        if self.dtype == "float32":
            return [(role, rows)]
        integers, scales, zeros = self._quantize(rows)
        return [(role, integers), (f"{role}_scale", scales), (f"{role}_zero_point", zeros)]

    def _quantize(self, rows: Node) -> tuple[Node, Node, Node]:
        """Per token and head: int8 values, float32 scale, int8 zero point."""
        decomposed = torch.ops.quantized_decomposed
        chosen = self._call(decomposed.choose_qparams_per_token_asymmetric.default, rows, torch.int8)
        scale = self._call(operator.getitem, chosen, 0)
        zero = self._call(operator.getitem, chosen, 1)
        integers = self._call(decomposed.quantize_per_token.default, rows, scale, zero, -128, 127, torch.int8)
        return (
            integers,
            self._call(aten.to.dtype, scale, torch.float32),
            self._call(aten.to.dtype, zero, torch.int8),
        )

    def _state(self, call: AttentionCall, role: str, where: CacheLayout) -> Node:
        width = 1 if role.endswith(("scale", "zero_point")) else int(call.k.meta["val"].shape[3])
        return self.states.add(call, role, where, width, _state_dtype(self.dtype, role))

    def _attend(self, call: AttentionCall, held: tuple[Node, ...], start: Node, mask: Node | None) -> Node:
        query = self._call(aten.transpose.int, call.q, 1, 2)
        order = (start, None, 0.0, True, call.scale) if mask is None else (0, mask, 0.0, False, call.scale)
        sdpa = torch.ops.llama
        if self.dtype == "float32":
            return self._call(sdpa.custom_sdpa.default, query, *held, *order)
        key, key_scale, key_zero, value, value_scale, value_zero = held
        integers, scale, zero = self._quantize(query)
        return self._call(
            sdpa.custom_quantized_sdpa.default,
            *(integers, key, value, *order),
            *(zero, scale, key_zero, key_scale, value_zero, value_scale),
        )

    def _call(self, target: object, *arguments: object) -> Node:
        return self.graph.graph.call_function(target, arguments)  # type: ignore[arg-type]


def _state_dtype(cache: str, role: str) -> torch.dtype:
    if role.endswith("_scale"):
        return torch.float32
    return torch.int8 if role.endswith("_zero_point") else DTYPES[cache]
