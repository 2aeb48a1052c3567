"""Hold the keys of all layers in one state and the values in another, and write attention out over what was read.

    k -> edgec::cache_write(K_L [1,slots,G,D], positions)
    v -> edgec::cache_write(V_L)                              -> edgec::cached_attention(q, K_L, V_L)
    ==>
    k [1,S,G,D] -> transpose -> edgec::stacked_rows(keyCache [N,1,G,slots,D], start, L) -> next layer's cache
      -> select L -> slice 0..E -> K [1,G,E,D]
    q [1,S,H,D] -> [1,G,H/G*S,D] -> matmul K^T -> softcap? -> + mask [S,E] -> softmax -> matmul V -> [1,S,H,D]

Where ``static_cache`` reads all slots, this reads the E that hold something, whose number the call's second input says.
The mask is made of positions: what a runtime gives as one is not read. Legality: after ``stateful_method``; full caches
in float32 of keys and values alone, of the same heads and widths in every layer; no learned sinks, no biases. Exact.
Measured on examples/tiny-stories: 2 states in the place of 16.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import LAYER, OPERATOR, AttentionCall
from edgec.ir.encoder_operators import BIASED_ATTENTION
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION
from edgec.ir.program import Effect, Interface, Program, State
from edgec.ir.stateful_call import CALL_POSITIONS, STACKED_ROWS, StatefulNames
from edgec.passes.contract import nodes_of, placeholder
from edgec.passes.fuse.fuse_rope import swap_axes
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.finite_mask import HIDDEN
from edgec.passes.static.parts.static_attention import CachedCall, capped, slot_numbers, visible_columns

aten = torch.ops.aten
_ROLES = ("key", "value")
# Where sizes vary, torch derives the shapes of ``logical_and`` by ``&``, which coremltools' table makes one again.
_JOINED = (aten.bitwise_and.Tensor, aten.bitwise_or.Tensor)


@dataclass(frozen=True)
class StackedCache:
    """Give a decoder two states for all layers; exact.

    Attributes:
        names: the runtime's names.
    """

    names: StatefulNames
    name: str = "stacked_cache"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The caches of all layers are alike."""
        if problem := _unstackable(program):
            raise _refused(problem)

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace every cache, and every attention node."""
        named = dict(zip(_ROLES, (self.names.key, self.names.value), strict=True))
        stacks = {role: _Stack.of(graph, named[role], role, program.interface.states) for role in _ROLES}
        places = {name: stack for stack in stacks.values() for name in stack.layers}
        extent = _Extent(graph, self.names)
        for node in nodes_of(graph, CACHE_WRITE, CACHED_ATTENTION):
            with graph.graph.inserting_before(node):
                emit = Emitter(graph.graph)
                if node.target is CACHE_WRITE:
                    places[str(node.args[2].target)].write(emit, node, extent)  # type: ignore[union-attr]
                else:
                    node.replace_all_uses_with(_attend(emit, CachedCall.of(node), places, extent, node.meta[LAYER]))
            graph.graph.erase_node(node)
        for stack in stacks.values():
            stack.store()
        return replace(program.interface, states=tuple(stack.state for stack in stacks.values()))

    def ensures(self, program: Program) -> None:
        """No kernel of edgec's CPU engine is left."""
        assert not nodes_of(program.graph, CACHE_WRITE, CACHED_ATTENTION)


def refuse_unstackable(program: Program) -> None:
    """Refuse a captured program whose layers' caches will not be alike.

    Raises:
        InputError: E858.
    """
    calls = [AttentionCall.of(node) for node in nodes_of(program.graph, OPERATOR)]
    shapes = {tuple(int(size) for value in (call.k, call.v) for size in value.meta["val"].shape[2:]) for call in calls}
    if problem := _different(len(shapes), any(call.sink_logits is not None for call in calls)):
        raise _refused(problem)


def _unstackable(program: Program) -> str:
    """Why the caches of a program cannot be stacked; empty where they can."""
    states = program.interface.states
    shapes = [{state.shape for state in states if state.role == role} for role in _ROLES]
    sinks = any(CachedCall.of(node).sink_logits is not None for node in nodes_of(program.graph, CACHED_ATTENTION))
    other = sorted({state.role for state in states if state.role not in _ROLES or state.dtype != torch.float32})
    if other or not all(shapes):
        return f"it has no float32 keys and values, or other states besides: {', '.join(other)}"
    if nodes_of(program.graph, BIASED_ATTENTION):
        return "its attention adds biases of relative positions"
    return _different(max(map(len, shapes)), sinks)


def _different(shapes: int, sinks: bool) -> str:
    if shapes > 1:
        return "its layers have heads of different numbers or widths"
    return "its attention has learned sinks" if sinks else ""


def _refused(why: str) -> InputError:
    return InputError(
        what="the caches of this model cannot be stacked into one state of keys and one of values",
        where="--layout",
        why=f"{why}, and the runtime that reads this layout opens two states alone",
        fix="leave --layout out: edgec's own layout has a state for each layer",
        code="E858",
    )


@dataclass
class _Extent:
    """How far a call reads: the nodes that its second input gives, and the masks made of them."""

    graph: GraphModule
    names: StatefulNames
    made: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def start(self, emit: Emitter) -> Node:
        """The call's first position, int32 [1]."""
        return self._once(("start",), lambda: emit(aten.slice.Tensor, self._positions(), 0, 0, 1))

    def end(self, emit: Emitter) -> Node:
        """The number of slots that hold something after the call."""

        def counted() -> Node:
            size = emit(aten.sym_size.int, placeholder(self.graph, self.names.sized), self.names.rank - 1)
            return emit(operator.sub, size, self.names.beyond) if self.names.beyond else size

        return self._once(("end",), counted)

    def mask(self, emit: Emitter, call: CachedCall, slots: int, repeats: int) -> Node:
        """0 where a row may look, HIDDEN elsewhere: [1, 1, repeats * S, E]."""

        def masked() -> Node:
            numbers = slot_numbers(self.graph, emit, call.positions, slots)
            columns = emit(aten.slice.Tensor, numbers, 0, 0, self.end(emit))
            seen = emit(aten.to.dtype, visible_columns(emit, call, columns, *_JOINED), torch.float32)
            # Arithmetic instead of a selection, whose branches coremltools would store as whole matrices.
            mask = emit(aten.mul.Tensor, emit(aten.sub.Tensor, seen, 1.0), -HIDDEN)
            rows = emit(aten.cat.default, [mask] * repeats, 0) if repeats > 1 else mask
            return emit(aten.unsqueeze.default, emit(aten.unsqueeze.default, rows, 0), 0)

        return self._once((call.window, call.sink, repeats), masked)

    def _once(self, key: tuple[object, ...], make: Callable[[], Node]) -> Node:
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def _positions(self) -> Node:
        return nodes_of(self.graph, CALL_POSITIONS)[0]


@dataclass
class _Stack:
    """One state for a kind of cache of all layers.

    Attributes:
        layers: the place of each cache that it replaces, by name.
        latest: its contents after the writes so far.
    """

    graph: GraphModule
    state: State
    layers: dict[str, int]
    held: Node
    latest: Node

    @classmethod
    def of(cls, graph: GraphModule, name: str, role: str, states: Sequence[State]) -> _Stack:
        """An empty stack for all caches of a role, in the order in which layers write them."""
        caches = {state.buffer: state for state in states if state.role == role}
        written = [str(node.args[2].target) for node in nodes_of(graph, CACHE_WRITE)]  # type: ignore[union-attr]
        layers = {each: place for place, each in enumerate(each for each in written if each in caches)}
        first = caches[next(iter(layers))]
        _, slots, groups, width = first.shape
        state = replace(first, buffer=name, layer=0, shape=(len(layers), 1, groups, slots, width))
        graph.register_buffer(name, torch.zeros(state.shape, dtype=state.dtype))
        with graph.graph.inserting_before(nodes_of(graph, CACHE_WRITE)[0]):
            held = graph.graph.get_attr(name)
        held.meta["val"] = nodes_of(graph, CALL_POSITIONS)[0].meta["val"].new_empty(state.shape, dtype=state.dtype)
        return cls(graph, state, layers, held, held)

    def write(self, emit: Emitter, node: Node, extent: _Extent) -> None:
        """Write the rows of a ``cache_write`` node."""
        value, _, cache, *_ = node.args
        assert isinstance(value, Node) and isinstance(cache, Node)
        rows = swap_axes(emit, value)
        self.latest = emit(STACKED_ROWS, self.latest, rows, extent.start(emit), self.layers[str(cache.target)])

    def read(self, emit: Emitter, cache: Node, extent: _Extent) -> Node:
        """What a layer attends to, [1, G, E, D]."""
        layer = emit(aten.select.int, self.latest, 0, self.layers[str(cache.target)])
        return emit(aten.slice.Tensor, layer, 2, 0, extent.end(emit))

    def store(self) -> None:
        """Leave the last contents in the state."""
        with self.graph.graph.inserting_after(self.latest):
            stored = self.graph.graph.call_function(aten.copy_.default, (self.held, self.latest))
        stored.meta["val"] = self.held.meta["val"]


def _attend(emit: Emitter, call: CachedCall, stacks: dict[str, _Stack], extent: _Extent, layer: object) -> Node:
    """Softmax attention of ``call.q`` [1, S, H, D] over what the caches hold: [1, S, H, Dv]."""
    keys, values = (stacks[str(cache.target)].read(emit, cache, extent) for cache in (call.keys, call.values))
    heads, width = (int(size) for size in call.q.meta["val"].shape[2:])
    groups, slots = int(keys.meta["val"].shape[1]), stacks[str(call.keys.target)].state.slots
    q = emit(aten.mul.Tensor, swap_axes(emit, call.q), call.scale)
    q = emit(aten.reshape.default, q, [1, groups, -1, width])
    scores = capped(emit, emit(aten.matmul.default, q, emit(aten.transpose.int, keys, 2, 3)), call.softcap)
    scores = emit(aten.add.Tensor, scores, extent.mask(emit, call, slots, heads // groups))
    out = emit(aten.matmul.default, emit(aten.softmax.int, scores, -1), values)
    out = emit(aten.reshape.default, out, [1, heads, -1, int(values.meta["val"].shape[-1])])
    result = emit(aten.transpose.int, out, 1, 2)
    result.meta[LAYER] = layer
    return result
