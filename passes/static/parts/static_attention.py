"""Write attention over states of fixed shape out in matrix products and one softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute
from edgec.ir.encoder_operators import BIASED_ATTENTION
from edgec.passes.contract import placeholder
from edgec.passes.fuse.fuse_rope import swap_axes
from edgec.passes.graph.emit import Emitter, shared_constant
from edgec.passes.static.finite_mask import HIDDEN

aten = torch.ops.aten
FUSED_ATTENTION = aten.scaled_dot_product_attention.default


@dataclass(frozen=True)
class CachedCall:
    """The arguments of one ``edgec::cached_attention`` node, by the operator's own names.

    ``bias``: added to the scores, [1, H, R, slots], of ``edgec::biased_attention``; of the rest that has nothing.
    """

    q: Node
    positions: Node
    written: Node
    keys: Node
    values: Node
    key_grid: Node | None
    value_grid: Node | None
    scale: float
    window: int
    ring: int
    sink: int
    softcap: float
    sink_logits: Node | None
    bias: Node | None = None

    @classmethod
    def of(cls, node: Node) -> CachedCall:
        """Read a node of either operator; their schemas fix order and types."""
        if node.target is not BIASED_ATTENTION:
            return cls(*node.args)  # type: ignore[arg-type]
        given: Any = node.args
        q, positions, keys, values, key_grid, value_grid, bias, scale = given
        return cls(q, positions, positions, keys, values, key_grid, value_grid, scale, 0, 0, 0, 0.0, None, bias)


@dataclass(frozen=True)
class CacheView:
    """The nodes through which attention reads a cache.

    Attributes:
        held: [1, G, slots, D'].
        width: D, without padding.
        new: [1, G, S, D'] where ``held`` lacks this call's rows, else None.
    """

    held: Node
    width: int
    new: Node | None = None


@dataclass
class Masks:
    """Additive masks, made once for all layers that see the same."""

    graph: GraphModule
    made: dict[tuple[object, ...], Node] = field(default_factory=dict)

    def of(self, call: CachedCall, view: CacheView, repeats: int) -> Node:
        """The mask of a call, [1, 1, repeats * R, slots (+ S)]: 0 where a row may look, HIDDEN elsewhere."""
        slots = int(view.held.meta["val"].shape[2])
        fresh = call.written if view.new is not None else None
        key = (call.positions, fresh, slots, call.window, call.sink, repeats)
        if key not in self.made:
            emit = Emitter(self.graph.graph)
            parts = [self._slots(emit, call, slots, fresh is not None)]
            parts += [visible_columns(emit, call, fresh)] if fresh is not None else []
            seen = emit(aten.cat.default, parts, -1) if len(parts) > 1 else parts[0]
            # Arithmetic instead of a selection, whose branches coremltools would store as whole matrices.
            mask = emit(aten.mul.Tensor, emit(aten.sub.Tensor, emit(aten.to.dtype, seen, torch.float32), 1.0), -HIDDEN)
            rows = emit(aten.cat.default, [mask] * repeats, 0) if repeats > 1 else mask
            self.made[key] = emit(aten.reshape.default, rows, [1, 1, *rows.meta["val"].shape])
        return self.made[key]

    def bias_of(self, bias: Node, view: CacheView, groups: int) -> Node:
        """A call's bias [1, H, R, slots] for its scores, [1, G, repeats * R, slots (+ R)]."""
        key = (bias, view.new is not None, groups)
        if key not in self.made:
            emit = Emitter(self.graph.graph)
            whole = bias if view.new is None else emit(aten.cat.default, [bias, self._fresh(emit, bias)], -1)
            _, heads, rows, columns = (int(size) for size in whole.meta["val"].shape)
            self.made[key] = emit(aten.reshape.default, whole, [1, groups, heads // groups * rows, columns])
        return self.made[key]

    def _fresh(self, emit: Emitter, bias: Node) -> Node:
        """The bias between the rows of a call, [1, H, R, R]: that of the first R positions, as only distances count."""
        rows = int(bias.meta["val"].shape[2])
        table = attribute(self.graph, str(_looked_up(bias).target))
        first = table.reshape(len(table), -1, bias.meta["val"].shape[3])[:rows, :, :rows]
        name = f"{_looked_up(bias).target}_fresh"
        return shared_constant(self.graph, emit, name, first.transpose(0, 1)[None].contiguous(), bias)

    def _slots(self, emit: Emitter, call: CachedCall, slots: int, old_only: bool) -> Node:
        """Which slots each row sees, bool [R, slots]; with ``old_only`` none that this call writes."""
        held = slot_numbers(self.graph, emit, call.positions, slots)
        seen = visible_columns(emit, call, held)
        if not old_only:
            return seen
        earlier = emit(aten.lt.Tensor, held, placeholder(self.graph, "start"))
        return emit(aten.logical_and.default, seen, earlier)


def _looked_up(bias: Node) -> Node:
    """The table that a bias is looked up in, as ``bias_tables`` leaves it: permute(reshape(index_select(table)))."""
    node: Any = bias
    while node.op != "get_attr":
        node = node.args[0]
    table: Node = node
    return table


def slot_numbers(
    graph: GraphModule, emit: Emitter, positions: Node, slots: int, dtype: torch.dtype = torch.int32
) -> Node:
    """The numbers of a cache's slots, [slots], to compare ``positions`` with: one constant for caches of one length."""
    return shared_constant(graph, emit, f"slot_numbers_{slots}", torch.arange(slots, dtype=dtype), positions)


def visible_columns(
    emit: Emitter,
    call: CachedCall,
    columns: Node,
    both: Any = aten.logical_and.default,
    either: Any = aten.logical_or.default,
) -> Node:
    """Which columns each row sees by the rule of ``operators.cached_attention``, bool [R, columns].

    ``both`` and ``either`` join two truth values.
    """
    distance = emit(aten.sub.Tensor, emit(aten.unsqueeze.default, call.positions, 1), columns)
    seen = emit(aten.ge.Scalar, distance, 0)
    if not call.window:
        return seen
    near = near_keys(emit, emit(aten.unsqueeze.default, call.positions, 1), columns, call.window)
    if call.sink:
        near = emit(either, near, emit(aten.lt.Scalar, columns, call.sink))
    return emit(both, seen, near)


def near_keys(emit: Emitter, rows: Node, columns: Node, window: int) -> Node:
    """Which keys lie in a query's window or chunk, by the rule of ``attention.within``."""
    if window > 0:
        return emit(aten.lt.Scalar, emit(aten.sub.Tensor, rows, columns), window)
    begin = emit(aten.sub.Tensor, rows, emit(aten.remainder.Scalar, rows, -window))
    return emit(aten.ge.Tensor, columns, begin)


def attend(emit: Emitter, call: CachedCall, keys: CacheView, values: CacheView, masks: Masks) -> Node:
    """Softmax attention of ``call.q`` [1, R, H, D] over the caches: [1, R, H, Dv]."""
    groups, repeats = _heads(call, keys)
    scores = capped(emit, _scores(emit, _queries(emit, call, keys, call.scale), keys), call.softcap)
    if call.bias is not None:
        scores = emit(aten.add.Tensor, scores, masks.bias_of(call.bias, keys, groups))
    scores = emit(aten.add.Tensor, scores, masks.of(call, keys, repeats))
    rows = int(call.q.meta["val"].shape[1])
    return _by_row(emit, call, _weighted(emit, _softmax(emit, scores, call, rows), values), values)


def is_fusible(call: CachedCall, keys: CacheView) -> bool:
    """Whether one operator says this attention: nothing but a mask is added to scores, and the cache holds all."""
    return not call.softcap and call.sink_logits is None and call.bias is None and keys.new is None


def attend_fused(emit: Emitter, call: CachedCall, keys: CacheView, values: CacheView, masks: Masks) -> Node:
    """The same as ``attend`` in one operator, which scales by the width of its keys, so that q makes up for that."""
    repeats = _heads(call, keys)[1]
    q = _queries(emit, call, keys, call.scale * math.sqrt(int(keys.held.meta["val"].shape[3])))
    mask = masks.of(call, keys, repeats)
    return _by_row(emit, call, emit(FUSED_ATTENTION, q, keys.held, values.held, mask), values)


def _heads(call: CachedCall, keys: CacheView) -> tuple[int, int]:
    """KV heads, and query heads of each."""
    groups = int(keys.held.meta["val"].shape[1])
    return groups, int(call.q.meta["val"].shape[2]) // groups


def _queries(emit: Emitter, call: CachedCall, keys: CacheView, scale: float) -> Node:
    """The queries of each KV head as rows of one matrix, as wide as its keys: [1, G, repeats * R, D']."""
    rows, heads, width = (int(size) for size in call.q.meta["val"].shape[1:])
    groups, wide = int(keys.held.meta["val"].shape[1]), int(keys.held.meta["val"].shape[3])
    q = emit(aten.mul.Tensor, swap_axes(emit, call.q), scale)
    q = emit(aten.reshape.default, q, [1, groups, heads // groups * rows, width])
    return emit(aten.constant_pad_nd.default, q, [0, wide - width], 0.0) if wide > width else q


def _by_row(emit: Emitter, call: CachedCall, out: Node, values: CacheView) -> Node:
    """What attention gives, [1, G, repeats * R, Dv'], as [1, R, H, Dv]."""
    rows, heads = (int(size) for size in call.q.meta["val"].shape[1:3])
    if int(out.meta["val"].shape[-1]) > values.width:
        out = emit(aten.slice.Tensor, out, 3, 0, values.width)
    out = emit(aten.reshape.default, out, [1, heads, rows, values.width])
    return emit(aten.transpose.int, out, 1, 2)


def _scores(emit: Emitter, q: Node, keys: CacheView) -> Node:
    """Products with every key, [1, G, repeats * R, slots (+ S)]."""
    parts = [
        emit(aten.matmul.default, q, emit(aten.transpose.int, part, 2, 3))
        for part in (keys.held, keys.new)
        if part is not None
    ]
    return emit(aten.cat.default, parts, -1) if len(parts) > 1 else parts[0]


def capped(emit: Emitter, scores: Node, softcap: float) -> Node:
    """Scores that a soft cap bounds; 0 leaves them."""
    if not softcap:
        return scores
    small = emit(aten.tanh.default, emit(aten.mul.Tensor, scores, 1.0 / softcap))
    return emit(aten.mul.Tensor, small, softcap)


def _softmax(emit: Emitter, scores: Node, call: CachedCall, rows: int) -> Node:
    """The softmax's weights; learned sinks take part and are cut off again."""
    if call.sink_logits is None:
        return emit(aten.softmax.int, scores, -1)
    _, groups, repeated, slots = (int(size) for size in scores.meta["val"].shape)
    column = emit(aten.reshape.default, call.sink_logits, [1, groups, repeated // rows, 1])
    column = emit(aten.expand.default, column, [1, groups, repeated // rows, rows])
    column = emit(aten.reshape.default, column, [1, groups, repeated, 1])
    weights = emit(aten.softmax.int, emit(aten.cat.default, [scores, column], -1), -1)
    return emit(aten.slice.Tensor, weights, 3, 0, slots)


def _weighted(emit: Emitter, weights: Node, values: CacheView) -> Node:
    if values.new is None:
        return emit(aten.matmul.default, weights, values.held)
    slots = int(values.held.meta["val"].shape[2])
    old = emit(aten.matmul.default, emit(aten.slice.Tensor, weights, 3, 0, slots), values.held)
    new = emit(aten.matmul.default, emit(aten.slice.Tensor, weights, 3, slots, 1 << 62), values.new)
    return emit(aten.add.Tensor, old, new)
