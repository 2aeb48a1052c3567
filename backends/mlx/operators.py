"""A decoder's graph in the operators that ExecuTorch's MLX delegate takes.

    edgec::rms_norm(x, weight, eps)                    ->  aten.rms_norm
    edgec::rope(x [1,S,H,D], cos, sin)                 ->  mlx::rope(x [1,H,S,D], R, start, freqs)
    edgec::cache_write(k [1,S,G,D], K [1,slots,G,D])   ->  mlx::kv_cache_update(K [1,G,slots,D], k [1,G,S,D], start)
    edgec::cached_attention(q, K, V, causal)           ->  mlx::custom_sdpa(q [1,H,S,D], K, V, start, causal)
      with a window                                    ->  the same over all slots, with a mask

``start`` is the first position of a call, an integer that is read from ``positions``. Legality: full caches in float,
positions one after the other; neither soft-capped scores, learned sinks, biases nor sink tokens, which MLX's attention
does not have. Exact.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.backends.mlx.rotations import Rotation, rotation_of
from edgec.errors import InputError
from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION, RMS_NORM, ROPE
from edgec.ir.program import Interface, Program, State
from edgec.passes.contract import last_placeholder, nodes_of, placeholder
from edgec.passes.fuse.fuse_rope import swap_axes
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.static_attention import CachedCall, slot_numbers, visible_columns

aten = torch.ops.aten
_ROWS, _TO_THE_END = "logit_index", (1 << 63) - 1


def refuse_unspoken(program: Program) -> None:
    """Refuse what MLX's attention does not have, as soon as the captured graph shows it.

    Raises:
        InputError: E870.
    """
    for node in nodes_of(program.graph, OPERATOR):
        call = AttentionCall.of(node)
        lacking = {
            "soft-capped scores": bool(call.softcap),
            "learned attention sinks": call.sink_logits is not None,
            "masks or biases beside the causal one": call.mask is not None,
            "attention in chunks": call.window < 0,
        }
        if found := next((what for what, present in lacking.items() if present), None):
            raise _unspoken(found, node.name)


def _refuse_sinks(call: CachedCall) -> None:
    """Refuse tokens that windows never lose, which the recipe asks for."""
    if call.sink:
        raise _unspoken("sink tokens of sliding windows", "the recipe's sink_tokens")


def _unspoken(what: str, where: str) -> InputError:
    return InputError(
        f"MLX's attention has no {what}.",
        where=where,
        why="its delegate knows one attention: scaled products, a mask, a softmax",
        fix="export with --format mlpackage for the same GPU",
        code="E870",
    )


def last_row(graph: GraphModule, before: Interface) -> Interface:
    """Take the last row where rows are chosen, in place; returns the interface without their choice."""
    chosen = placeholder(graph, _ROWS)
    for user in tuple(chosen.users):
        source, dimension, _ = user.args
        with graph.graph.inserting_before(user):
            last = Emitter(graph.graph)(aten.slice.Tensor, source, dimension, -1, _TO_THE_END)
        user.replace_all_uses_with(last)
        graph.graph.erase_node(user)
    graph.graph.erase_node(chosen)
    logits = before.outputs[0]
    outputs = (replace(logits, shape=(1, 1, logits.shape[-1])),)
    return replace(before, inputs=tuple(each for each in before.inputs if each.name != _ROWS), outputs=outputs)


@dataclass
class MlxOperators:
    """Rewrites one graph in place.

    Attributes:
        graph: a copy of the last graph, in float32.
        rotations: those found so far, by the name of the buffer with their periods, which stays in float32.
    """

    graph: GraphModule
    rotations: dict[str, Rotation] = field(default_factory=dict)
    masks: dict[int, Node] = field(default_factory=dict)

    def rewrite(self, before: Interface) -> Interface:
        """Replace all of edgec's operators; returns the interface with states as MLX lays them out."""
        found = nodes_of(self.graph, ROPE)
        last = max((state.slots for state in before.states), default=1) - 1
        known = {node: self._rotation(node, last) for node in found}
        states = tuple(self._turned(state) for state in before.states)
        for node in nodes_of(self.graph, RMS_NORM, ROPE, CACHE_WRITE, CACHED_ATTENTION):
            with self.graph.graph.inserting_before(node):
                result = self._replacement(Emitter(self.graph.graph), node, known.get(node))
            if result is not None:
                node.replace_all_uses_with(result)
            self.graph.graph.erase_node(node)
        self.graph.graph.eliminate_dead_code()
        self.graph.recompile()
        return replace(before, states=states)

    def _rotation(self, node: Node, last: int) -> Rotation:
        _, cos, sin = node.args
        assert isinstance(cos, Node) and isinstance(sin, Node)
        return rotation_of(self.graph, cos, sin, self._positions, last)

    @property
    def _positions(self) -> Node:
        return placeholder(self.graph, "positions")

    @cached_property
    def _start(self) -> Node:
        """The first position of a call, as an integer."""
        with self.graph.graph.inserting_after(last_placeholder(self.graph)):
            first = self.graph.graph.call_function(aten.select.int, (self._positions, 0, 0))
        with self.graph.graph.inserting_after(first):
            return self.graph.graph.call_function(aten.item.default, (first,))

    def _replacement(self, emit: Emitter, node: Node, rotation: Rotation | None) -> Node | None:
        arguments: Any = node.args
        if rotation is not None:
            return self._rotated(emit, arguments[0], rotation)
        if node.target is RMS_NORM:
            x, weight, eps = arguments
            return emit(aten.rms_norm.default, x, [int(x.meta["val"].shape[-1])], weight, eps)
        if node.target is CACHE_WRITE:
            value, _, cache, *_ = arguments
            rows = emit(aten.contiguous.default, swap_axes(emit, value))
            self.graph.graph.call_function(torch.ops.mlx.kv_cache_update.default, (cache, rows, self._start))
            return None
        return self._attended(emit, CachedCall.of(node))

    def _turned(self, state: State) -> State:
        """A state with its slots side by side in each head, empty."""
        _, slots, heads, width = state.shape
        shape = (1, heads, slots, width)
        setattr(self.graph, state.buffer, torch.zeros(shape, dtype=state.dtype))
        for node in self.graph.graph.nodes:
            if node.op == "get_attr" and node.target == state.buffer:
                node.meta["val"] = node.meta["val"].new_empty(shape)
        return replace(state, shape=shape)

    def _rotated(self, emit: Emitter, x: Node, rotation: Rotation) -> Node:
        heads = emit(aten.contiguous.default, swap_axes(emit, x))
        width = 2 * len(rotation.periods)
        arguments = (heads, width, self._start, False, 1.0, 1.0, self._periods(rotation, x))
        turned = self.graph.graph.call_function(torch.ops.mlx.rope.default, arguments)
        turned.meta["val"] = heads.meta["val"]
        if rotation.factor != 1.0:
            turned = emit(aten.mul.Tensor, turned, rotation.factor)
        return emit(aten.transpose.int, turned, 1, 2)

    def _periods(self, rotation: Rotation, like: Node) -> Node:
        name = next((name for name, known in self.rotations.items() if known == rotation), None)
        if name is None:
            name = f"rope_periods_{len(self.rotations)}"
            self.graph.register_buffer(name, rotation.periods)
            self.rotations[name] = rotation
        node = self.graph.graph.get_attr(name)
        node.meta["val"] = like.meta["val"].new_empty(rotation.periods.shape)
        return node

    def _attended(self, emit: Emitter, call: CachedCall) -> Node:
        _refuse_sinks(call)
        q = emit(aten.contiguous.default, swap_axes(emit, call.q))
        rest: tuple[Any, ...] = (self._start, None, 0.0, True, call.scale)
        if call.window:
            slots = int(call.keys.meta["val"].shape[2])
            # Attention reads up to start + rows: here all slots, of which the mask hides those outside the window.
            begin = self.graph.graph.call_function(operator.sub, (slots, emit.size(q, 2)))
            rest = (begin, self._mask(emit, call, slots), 0.0, False, call.scale)
        arguments = (q, call.keys, call.values, *rest)
        out = self.graph.graph.call_function(torch.ops.mlx.custom_sdpa.default, arguments)
        out.meta["val"] = q.meta["val"]
        return emit(aten.transpose.int, out, 1, 2)

    def _mask(self, emit: Emitter, call: CachedCall, slots: int) -> Node:
        """Which slots each row of a call sees: bool [1, 1, S, slots]."""
        if call.window not in self.masks:
            held = slot_numbers(self.graph, emit, self._positions, slots, torch.int64)
            seen = visible_columns(emit, call, held)
            self.masks[call.window] = emit(aten.unsqueeze.default, emit(aten.unsqueeze.default, seen, 0), 0)
        return self.masks[call.window]
