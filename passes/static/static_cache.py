"""Hold keys and values in states of fixed shape, and write attention out over all of their slots.

    k -> edgec::cache_write(K [1,slots,G,D], positions)
    v -> edgec::cache_write(V)                              -> edgec::cached_attention(q, K, V)
    ==>
    k [1,S,G,D] -> transpose -> pad D to 32s -> edgec::update_slots(K [1,G,slots,D'], start) -> K'  -> stored
    q [1,S,H,D] -> [1,G,H/G*S,D'] -> matmul K'^T -> softcap? -> + mask -> softmax (with sinks?) -> matmul V'
      -> [1,S,H,D]

    updates = "caller": K is an input, k an output ``new_...``, and attention reads K and k side by side; the caller
    writes k into K's slots ``start ..``.

    updates = "whole": K is an input, and K with k in it an output ``next_...``, which the caller puts in its place.

    fused: attention is one aten.scaled_dot_product_attention, where it has no softcap and no learned sinks.

A head's keys lie side by side, and the query heads of one KV head are rows of one matrix, so that neither keys nor
values are repeated (for 16 query and 8 KV heads of 128 with 2048 slots that would be 8 MB a layer). One mask per window
serves all layers; hidden scores get ``finite_mask.HIDDEN``, never -inf. States are padded to a multiple of 32 because
the Neural Engine refuses others. ``updates="caller"`` is for runtimes that keep no state between two entry points
(ExecuTorch's Core ML delegate gives every method its own state).

Legality: full-length caches in float32, as ``kv_cache`` makes them with ``rings=False``. Exact. Layers that share a
cache keep sharing it. Measured on examples/tiny-stories: 16 states; 374 operators become 498.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import LAYER
from edgec.ir.encoder_operators import BIASED_ATTENTION
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION, UPDATE_SLOTS
from edgec.ir.program import Effect, Interface, Program, State, TensorType
from edgec.ir.static_methods import NEW_STATE
from edgec.passes.contract import last_placeholder, nodes_of, output_node, placeholder
from edgec.passes.fuse.fuse_rope import swap_axes
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.static_attention import CachedCall, CacheView, Masks, attend, attend_fused, is_fusible

aten = torch.ops.aten
UPDATES = ("in_place", "caller", "whole")


@dataclass(frozen=True)
class StaticCache:
    """Give every attention node states of fixed shape; exact.

    Attributes:
        multiple: the last dimension of a state is padded to a multiple of this; 1 leaves it as it is.
        updates: ``in_place`` writes the state in the graph; ``caller`` returns the new keys and values instead, and
            ``whole`` all of them.
        fused: attention over states that the graph holds is one operator, where that operator can say it.
    """

    multiple: int = 32
    updates: str = "in_place"
    fused: bool = False
    name: str = "static_cache"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Caches are full-length and float32, and the graph has a start to write at."""
        rings = [state.buffer for state in program.interface.states if state.layout == "ring"]
        other = [state.buffer for state in program.interface.states if state.dtype != torch.float32]
        if rings or other or "start" not in {tensor.name for tensor in program.interface.inputs}:
            raise InputError(
                what="these caches cannot become states of fixed shape",
                where=", ".join((rings + other)[:3]) or self.name,
                why="they are rings, are rounded, or the graph has no input that says where to write",
                fix="use kv_cache with float32 and without rings, and run static_method before it",
                code="E401",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace every cache, and every attention node."""
        maker = {"in_place": _InPlace, "caller": _ByCaller, "whole": _Whole}[self.updates]
        states = {state.buffer: state for state in program.interface.states}
        caches = maker(graph, states, self.multiple)
        masks = Masks(graph)
        for node in nodes_of(graph, CACHE_WRITE, CACHED_ATTENTION, BIASED_ATTENTION):
            with graph.graph.inserting_before(node):
                if node.target is CACHE_WRITE:
                    caches.write(node)
                    graph.graph.erase_node(node)
                else:
                    _attend(graph, node, caches, masks, self.fused)
        return caches.interface(program.interface)

    def ensures(self, program: Program) -> None:
        """No kernel of edgec's CPU engine is left."""
        assert not nodes_of(program.graph, CACHE_WRITE, CACHED_ATTENTION, BIASED_ATTENTION)


def _attend(graph: GraphModule, node: Node, caches: _Caches, masks: Masks, fused: bool) -> None:
    call = CachedCall.of(node)
    emit = Emitter(graph.graph)
    keys, values = (caches.views[str(cache.target)] for cache in (call.keys, call.values))
    result = (attend_fused if fused and is_fusible(call, keys) else attend)(emit, call, keys, values, masks)
    result.meta[LAYER] = node.meta[LAYER]
    node.replace_all_uses_with(result)
    graph.graph.erase_node(node)


@dataclass
class _Caches:
    """The states of one graph, as they get fixed shapes.

    Attributes:
        graph: changed in place.
        states: the states by name, replaced as caches are written.
        multiple: as in ``StaticCache``.
        views: what attention reads in place of a cache, by the cache's name.
    """

    graph: GraphModule
    states: dict[str, State]
    multiple: int
    views: dict[str, CacheView] = field(default_factory=dict)

    def write(self, node: Node) -> None:
        """Replace a ``cache_write`` node, and give its state the fixed shape."""
        value, _, cache, *_ = node.args
        assert isinstance(value, Node) and isinstance(cache, Node)
        emit, name = Emitter(self.graph.graph), str(cache.target)
        rows = pad_last(emit, swap_axes(emit, value), self.multiple)
        old = self.states[name]
        width, groups = int(rows.meta["val"].shape[3]), int(rows.meta["val"].shape[1])
        self.states[name] = replace(old, shape=(1, groups, old.slots, width))
        self.views[name] = self._place(emit, name, rows, int(value.meta["val"].shape[3]))

    def _place(self, emit: Emitter, name: str, rows: Node, width: int) -> CacheView:
        raise NotImplementedError

    def interface(self, before: Interface) -> Interface:
        """The program's interface with the states of fixed shape."""
        return replace(before, states=tuple(self.states.values()))


class _InPlace(_Caches):
    """States that the graph holds and writes itself."""

    def _place(self, emit: Emitter, name: str, rows: Node, width: int) -> CacheView:
        state = self.states[name]
        self.graph.register_buffer(name, torch.zeros(state.shape, dtype=state.dtype))
        held = self.graph.graph.get_attr(name)
        held.meta["val"] = rows.meta["val"].new_empty(state.shape)
        updated = emit(UPDATE_SLOTS, held, rows, placeholder(self.graph, "start"))
        self.graph.graph.call_function(aten.copy_.default, (held, updated)).meta["val"] = held.meta["val"]
        return CacheView(updated, width)


class _Inputs(_Caches):
    """States that are inputs."""

    def _taken(self, name: str, rows: Node) -> Node:
        """The input of a state that new rows belong to."""
        with self.graph.graph.inserting_after(last_placeholder(self.graph)):
            held = self.graph.graph.placeholder(name)
        held.meta["val"] = rows.meta["val"].new_empty(self.states[name].shape)
        return held

    def _return(self, values: Iterable[Node | None]) -> None:
        """Return values after the logits."""
        output = output_node(self.graph)
        logits: Any = output.args[0]
        results = logits if isinstance(logits, tuple | list) else (logits,)
        output.args = ((*results, *values),)


class _ByCaller(_Inputs):
    """States that are inputs; new rows are outputs."""

    def _place(self, emit: Emitter, name: str, rows: Node, width: int) -> CacheView:
        return CacheView(self._taken(name, rows), width, new=rows)

    def interface(self, before: Interface) -> Interface:
        """Caches among the inputs, new rows among the outputs."""
        self._return(view.new for view in self.views.values())
        inputs = (*before.inputs, *self._types(self.states, {}))
        new = {name: view.new.meta["val"].shape for name, view in self.views.items() if view.new is not None}
        outputs = (*before.outputs, *self._types(self.states, new, "new_"))
        return Interface(inputs, outputs, tuple(self.states.values()))

    def _types(self, states: Mapping[str, State], shapes: Mapping[str, Any], prefix: str = "") -> Iterator[TensorType]:
        for name in self.views:
            shape = tuple(shapes.get(name, states[name].shape))
            yield TensorType(f"{prefix}{name}", states[name].dtype, shape)


class _Whole(_Inputs):
    """States that are inputs; all of each with its new rows is an output."""

    def _place(self, emit: Emitter, name: str, rows: Node, width: int) -> CacheView:
        held = self._taken(name, rows)
        return CacheView(emit(UPDATE_SLOTS, held, rows, placeholder(self.graph, "start")), width)

    def interface(self, before: Interface) -> Interface:
        """Caches among the inputs, and among the outputs under their names' like."""
        self._return(view.held for view in self.views.values())
        held = [TensorType(name, self.states[name].dtype, self.states[name].shape) for name in self.views]
        next_ones = [replace(tensor, name=f"{NEW_STATE}{tensor.name}") for tensor in held]
        return Interface((*before.inputs, *held), (*before.outputs, *next_ones), tuple(self.states.values()))


def pad_last(emit: Emitter, value: Node, multiple: int) -> Node:
    """A value whose last dimension is padded with zeros up to a multiple."""
    missing = -int(value.meta["val"].shape[-1]) % multiple
    return emit(aten.constant_pad_nd.default, value, [0, missing], 0.0) if missing else value
