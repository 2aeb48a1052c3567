"""Filters and recurrences of single values, for all tokens of a call at once.

    h_t = a_t h_(t-1) + x_t                                                                      token by token
    ==>
    d = 1, 2, 4, ...:  x_t += a_t x_(t-d) ;  a_t *= a_(t-d)      for t >= d                      log2(S) steps
    h_t = x_t + a_t h_0

After the step of d, x_t and a_t stand for the last 2d tokens (Hillis & Steele 1986). Every factor is at most 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.fx import Node

from edgec.ir.attributes import attribute, read_shared
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.chunk import Chunk
from edgec.passes.static.parts.matrix_states import MixedCall, Results

aten = torch.ops.aten


@dataclass(frozen=True)
class ConvCall:
    """The arguments of ``edgec::cached_conv``, by the operator's own names."""

    x: Node
    weight: Node
    bias: Node | None
    positions: Node
    state: Node
    log: Node
    seen: Node
    silu: bool


@dataclass(frozen=True)
class RecurrenceCall:
    """The arguments of ``edgec::cached_recurrence``, by the operator's own names."""

    x: Node
    decay: Node
    positions: Node
    state: Node
    log: Node
    seen: Node


def causal_conv(emit: Emitter, chunk: Chunk, call: ConvCall, state: Node) -> Results:
    """``cached_conv`` from a state [1, K - 1, C], as a sum of shifted products; padding leaves the state alone."""
    taps, tokens = int(call.weight.meta["val"].shape[0]), chunk.tokens
    rows = emit(aten.cat.default, [state, call.x], 1)
    shifted = [emit(aten.slice.Tensor, rows, 1, tap, tap + tokens) for tap in range(taps)]
    products = [emit(aten.mul.Tensor, x, _tap(emit, chunk, call.weight, tap)) for tap, x in enumerate(shifted)]
    out = _sum(emit, products)
    out = out if call.bias is None else emit(aten.add.Tensor, out, call.bias)
    if tokens == 1:
        after = emit(aten.slice.Tensor, rows, 1, 1, taps)
    else:
        after = emit(aten.index_select.default, rows, 1, chunk.tail(emit, 1, taps - 1))
    return emit(aten.silu.default, out) if call.silu else out, after


def _tap(emit: Emitter, chunk: Chunk, weight: Node, tap: int) -> Node:
    """One place of all filters, [C]."""
    if weight.op != "get_attr":
        return emit(aten.select.int, weight, 0, tap)
    value = attribute(chunk.graph, str(weight.target)).detach()[tap].contiguous()
    held = read_shared(chunk.graph, f"{weight.target}_part{tap}", lambda: value)
    held.meta["val"] = weight.meta["val"][tap]
    return held


def _sum(emit: Emitter, parts: Sequence[Node]) -> Node:
    total = parts[0]
    for part in parts[1:]:
        total = emit(aten.add.Tensor, total, part)
    return total


def selective_scan(emit: Emitter, chunk: Chunk, call: MixedCall, state: Node) -> Results:
    """``cached_scan`` from a state [1, N, W]: out [1, S, W], and the state after it."""
    dt = call.dt
    if chunk.tokens > 1:
        dt = emit(aten.mul.Tensor, dt, emit(aten.unsqueeze.default, chunk.valid(emit), 1))
    step = emit(aten.unsqueeze.default, dt, 2)
    decay = emit(aten.exp.default, emit(aten.mul.Tensor, step, call.A))
    written = emit(aten.unsqueeze.default, emit(aten.mul.Tensor, dt, call.x), 2)
    new = emit(aten.mul.Tensor, emit(aten.unsqueeze.default, call.B, 3), written)
    held = _scanned(emit, chunk, decay, new, emit(aten.unsqueeze.default, state, 1))
    read = emit(aten.matmul.default, emit(aten.unsqueeze.default, call.C, 2), held)
    out = emit(aten.squeeze.dim, read, 2)
    if call.D is not None:
        out = emit(aten.add.Tensor, out, emit(aten.mul.Tensor, call.x, call.D))
    return out, emit(aten.squeeze.dim, _last(emit, chunk, held), 1)


def linear_recurrence(emit: Emitter, chunk: Chunk, call: RecurrenceCall, state: Node) -> Results:
    """``cached_recurrence`` from a state [1, W]: out [1, S, W], and the state after it."""
    x, decay = call.x, call.decay
    if chunk.tokens > 1:
        valid = emit(aten.unsqueeze.default, chunk.valid(emit), 1)
        x = emit(aten.mul.Tensor, x, valid)
        # The decay of padding is 1: (decay - 1) valid + 1.
        lost = emit(aten.mul.Tensor, emit(aten.sub.Tensor, decay, 1.0), valid)
        decay = emit(aten.add.Tensor, lost, 1.0)
    held = _scanned(emit, chunk, decay, x, emit(aten.unsqueeze.default, state, 1))
    return held, emit(aten.squeeze.dim, _last(emit, chunk, held), 1)


def _scanned(emit: Emitter, chunk: Chunk, decay: Node, new: Node, state: Node) -> Node:
    """The value after each token, [1, S, ...], from what each keeps and adds; padding keeps all and adds nothing."""
    distance = 1
    while distance < chunk.tokens:
        new = _joined(emit, new, emit(aten.add.Tensor, *_pair(emit, chunk, decay, new, distance)), distance)
        product = emit(aten.mul.Tensor, *_ends(emit, chunk, decay, decay, distance))
        decay = _joined(emit, decay, product, distance)
        distance *= 2
    return emit(aten.add.Tensor, new, emit(aten.mul.Tensor, decay, state))


def _pair(emit: Emitter, chunk: Chunk, decay: Node, new: Node, distance: int) -> tuple[Node, Node]:
    """What tokens added, and what is left of what those ``distance`` before them added."""
    later, earlier = _ends(emit, chunk, decay, new, distance)
    own = emit(aten.slice.Tensor, new, 1, distance, chunk.tokens)
    return own, emit(aten.mul.Tensor, later, earlier)


def _ends(emit: Emitter, chunk: Chunk, later: Node, earlier: Node, distance: int) -> tuple[Node, Node]:
    """All rows but the first ``distance`` of one value, and all but the last of another."""
    rows = chunk.tokens
    return emit(aten.slice.Tensor, later, 1, distance, rows), emit(aten.slice.Tensor, earlier, 1, 0, rows - distance)


def _joined(emit: Emitter, old: Node, rest: Node, distance: int) -> Node:
    """The first ``distance`` rows of a value, and the rest in its new form."""
    return emit(aten.cat.default, [emit(aten.slice.Tensor, old, 1, 0, distance), rest], 1)


def _last(emit: Emitter, chunk: Chunk, held: Node) -> Node:
    return emit(aten.slice.Tensor, held, 1, chunk.tokens - 1, chunk.tokens)
