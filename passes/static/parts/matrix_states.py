"""Recurrences over a matrix for each head, for all tokens of a call at once (``ssd``, ``delta_rule``).

    M_t = exp(g_t) M_(t-1) + k_t w_t^T ;  y_t = q_t M_t                                          token by token
    ==>
    D[t,i] = exp(g_(i+1) + ... + g_t) for i <= t, else 0 ;  b_t = exp(g_1 + ... + g_t)
    Y = b (Q M) + (Q K^T * D) W ;  M' = b_S M + (K * D[S])^T W                                   matrix products

``ssd`` has W = dt x. In ``delta_rule`` W depends on earlier rows of itself: (I + L) W = beta (V - b (K M)) with
L = beta (K K^T * D) below the diagonal (Yang et al. 2024, arXiv 2412.06464, section 3.3). The inverse of I + L comes
from ever larger blocks on the diagonal, by products alone:

    [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]]

Its entries are products of contractions, at most 1 where keys have length 1 and beta is at most 1, so that float16
holds them; powers of L, from which a Neumann series sums the same inverse, reach 10^18 for 64 similar keys. The sums in
D are added up directly, not taken as differences of running sums, which would cancel.

Padding has g = 0 and beta or dt 0, so it neither decays nor writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.fx import Node

from edgec.ir.operators import RMS_NORM
from edgec.ir.recurrence import LENGTH_EPS
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.chunk import Chunk

aten = torch.ops.aten
Results = tuple[Node, Node]
"""What an operator gives, and the state after it."""


@dataclass(frozen=True)
class DeltaCall:
    """The arguments of ``edgec::cached_delta_rule``, by the operator's own names."""

    q: Node
    k: Node
    v: Node
    g: Node
    beta: Node
    positions: Node
    state: Node
    log: Node
    seen: Node
    normalize: bool
    scale: float


@dataclass(frozen=True)
class MixedCall:
    """The arguments of ``edgec::cached_ssd`` and ``edgec::cached_scan``, by the operators' own names."""

    x: Node
    dt: Node
    A: Node
    B: Node
    C: Node
    D: Node | None
    positions: Node
    state: Node
    log: Node
    seen: Node


@dataclass(frozen=True)
class _Decays:
    """How much is left of what tokens wrote.

    Attributes:
        between: of column i at row t, [1, H, S, S].
        since: of the state at row t, [1, H, S, 1].
    """

    between: Node
    since: Node


def delta_rule(emit: Emitter, chunk: Chunk, call: DeltaCall, state: Node) -> Results:
    """``cached_delta_rule`` from a state [1, H, N, P]: out [1, S, H, P], and the state after it."""
    heads = int(call.v.meta["val"].shape[2])
    q, k = (_unit(emit, part) if call.normalize else part for part in (call.q, call.k))
    q, k = (_by_head(emit, part, heads) for part in (emit(aten.mul.Tensor, q, call.scale), k))
    v, g, beta = _swapped(emit, call.v), _swapped(emit, call.g), _column(emit, _swapped(emit, call.beta))
    if chunk.tokens == 1:
        held = emit(aten.mul.Tensor, state, _column(emit, emit(aten.exp.default, g)))
        missing = emit(aten.sub.Tensor, v, emit(aten.matmul.default, k, held))
        return _one_step(emit, q, k, emit(aten.mul.Tensor, beta, missing), held)
    decays = _decays(emit, chunk, emit(aten.mul.Tensor, g, chunk.valid(emit)))
    beta = emit(aten.mul.Tensor, beta, _column(emit, chunk.valid(emit)))
    known = emit(aten.mul.Tensor, decays.since, emit(aten.matmul.default, k, state))
    wanted = emit(aten.mul.Tensor, beta, emit(aten.sub.Tensor, v, known))
    similar = emit(aten.mul.Tensor, _products(emit, k, k), decays.between)
    lower = emit(aten.mul.Tensor, emit(aten.mul.Tensor, similar, beta), chunk.earlier(emit))
    written = emit(aten.matmul.default, _inverse(emit, chunk, lower), wanted)
    return _all_steps(emit, chunk, (q, k, written), decays, state)


def ssd(emit: Emitter, chunk: Chunk, call: MixedCall, state: Node) -> Results:
    """``cached_ssd`` from a state [1, H, N, P]: out [1, S, H, P], and the state after it."""
    heads = int(call.x.meta["val"].shape[2])
    b, c = (_by_head(emit, part, heads) for part in (call.B, call.C))
    g, step = _swapped(emit, emit(aten.mul.Tensor, call.dt, call.A)), _swapped(emit, call.dt)
    if chunk.tokens > 1:
        g, step = (emit(aten.mul.Tensor, part, chunk.valid(emit)) for part in (g, step))
    written = emit(aten.mul.Tensor, _column(emit, step), _swapped(emit, call.x))
    if chunk.tokens == 1:
        held = emit(aten.mul.Tensor, state, _column(emit, emit(aten.exp.default, g)))
        out, after = _one_step(emit, c, b, written, held)
    else:
        out, after = _all_steps(emit, chunk, (c, b, written), _decays(emit, chunk, g), state)
    if call.D is not None:
        out = emit(aten.add.Tensor, out, emit(aten.mul.Tensor, call.x, _column(emit, call.D)))
    return out, after


def _one_step(emit: Emitter, q: Node, k: Node, written: Node, held: Node) -> Results:
    """One token, whose decay the state has behind it."""
    after = emit(aten.add.Tensor, held, emit(aten.matmul.default, _turned(emit, k), written))
    return _swapped(emit, emit(aten.matmul.default, q, after)), after


def _all_steps(emit: Emitter, chunk: Chunk, operands: tuple[Node, Node, Node], decays: _Decays, state: Node) -> Results:
    """All tokens of a call; ``operands``: q and k [1, H, S, N], and what each token writes, [1, H, S, P]."""
    q, k, written = operands
    earlier = emit(aten.mul.Tensor, decays.since, emit(aten.matmul.default, q, state))
    weights = emit(aten.mul.Tensor, _products(emit, q, k), decays.between)
    out = emit(aten.add.Tensor, earlier, emit(aten.matmul.default, weights, written))
    left, total = (_last(emit, each, chunk.tokens) for each in (decays.between, decays.since))
    keys = emit(aten.mul.Tensor, _turned(emit, k), left)
    after = emit(aten.mul.Tensor, state, total)
    return _swapped(emit, out), emit(aten.add.Tensor, after, emit(aten.matmul.default, keys, written))


def _decays(emit: Emitter, chunk: Chunk, g: Node) -> _Decays:
    """From log decays [1, H, S], 0 for padding."""
    column, up_to = _column(emit, g), chunk.up_to(emit)
    sums = emit(aten.matmul.default, up_to, emit(aten.mul.Tensor, column, chunk.earlier(emit)))
    between = emit(aten.mul.Tensor, emit(aten.exp.default, sums), up_to)
    return _Decays(between, emit(aten.exp.default, emit(aten.matmul.default, up_to, column)))


def _inverse(emit: Emitter, chunk: Chunk, lower: Node) -> Node:
    """The inverse of I + ``lower`` [1, H, S, S], which is zero on and above its diagonal."""
    size = 1
    one = chunk.square(emit, "identity", torch.eye(chunk.tokens))
    inverse = emit(aten.sub.Tensor, one, emit(aten.mul.Tensor, lower, _corners(emit, chunk, size)))
    while (size := size * 2) < chunk.tokens:
        corner = emit(aten.mul.Tensor, lower, _corners(emit, chunk, size))
        right = emit(aten.matmul.default, corner, inverse)
        inverse = emit(aten.sub.Tensor, inverse, emit(aten.matmul.default, inverse, right))
    return inverse


def _corners(emit: Emitter, chunk: Chunk, size: int) -> Node:
    """1 where the row lies in an odd block of ``size`` and the column in the block before it, [1, 1, S, S]."""
    block = torch.arange(chunk.tokens) // size
    corners = (block[:, None] == block[None, :] + 1) & (block[:, None] % 2 == 1)
    return chunk.square(emit, f"corners_of_{size}", corners.float())


def _unit(emit: Emitter, x: Node) -> Node:
    """Vectors divided by their lengths, by a norm: x / |x| = x / sqrt(mean(x^2)) / sqrt(N)."""
    width = int(x.meta["val"].shape[-1])
    return emit(aten.mul.Tensor, emit(RMS_NORM, x, None, LENGTH_EPS / width), 1.0 / math.sqrt(width))


def _by_head(emit: Emitter, x: Node, heads: int) -> Node:
    """[1, S, G, N] as [1, H, S, N]: neighbouring heads share."""
    groups, swapped = int(x.meta["val"].shape[2]), _swapped(emit, x)
    if groups == heads:
        return swapped
    tokens, width = (int(size) for size in swapped.meta["val"].shape[2:])
    spread = emit(
        aten.expand.default, emit(aten.unsqueeze.default, swapped, 2), [1, groups, heads // groups, tokens, width]
    )
    return emit(aten.reshape.default, spread, [1, heads, tokens, width])


def _products(emit: Emitter, x: Node, y: Node) -> Node:
    return emit(aten.matmul.default, x, _turned(emit, y))


def _last(emit: Emitter, x: Node, tokens: int) -> Node:
    return emit(aten.slice.Tensor, x, 2, tokens - 1, tokens)


def _column(emit: Emitter, x: Node) -> Node:
    return emit(aten.unsqueeze.default, x, -1)


def _swapped(emit: Emitter, x: Node) -> Node:
    return emit(aten.transpose.int, x, 1, 2)


def _turned(emit: Emitter, x: Node) -> Node:
    return emit(aten.transpose.int, x, 2, 3)
