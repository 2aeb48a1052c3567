"""Write attention out in plain operators, for backends and kernels that know only matrix products and softmax.

    edgec::attention(q [B,H,S,D], k [B,G,T,D], v [B,G,T,Dv], positions, mask?)
    ==>
    scale*q -> reshape [B*G,H/G*S,D] -> bmm k^T -> softcap? -> + masks? -> softmax (with sink?) -> bmm v
      -> reshape [B,H,S,Dv] -> transpose -> [B,S,H,Dv]

Legality: any attention node whose shapes are known; with ``causal`` off, those without causal order alone. Query heads
of one group lie side by side, so grouping them is a reshape of q and neither k nor v is repeated: for 16 query and 8 KV
heads of 128 at 1024 tokens that saves two copies of 8 MB. Causal and window masks come from positions, once for all
layers that share them. Hidden scores get ``HIDDEN`` rather than -inf, which softmax turns into the same exact zeros and
which NPUs accept.
Measured on a ViT of 2 layers: each attention node becomes 10, and ExecuTorch delegates all of them to XNNPACK.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attention import LAYER, OPERATOR, AttentionCall
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.static_attention import near_keys

aten = torch.ops.aten
HIDDEN = -1e30
_Masks = dict[tuple[Node, int, bool, int, torch.dtype], Node]


@dataclass(frozen=True)
class DecomposeAttention:
    """Rewrite ``edgec::attention`` to matrix products and softmax; exact.

    Attributes:
        causal: whether causal attention is rewritten as well, which otherwise stays for a cache.
    """

    causal: bool = True
    name: str = "decompose_attention"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every attention node."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every attention node, or every one without causal order."""
        masks: _Masks = {}
        for node in self._concerned(graph):
            attention = AttentionCall.of(node)
            with graph.graph.inserting_before(node):
                result = _decomposed(Emitter(graph.graph), attention, masks)
            result.meta[LAYER] = attention.layer
            node.replace_all_uses_with(result)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No such node is left."""
        assert not self._concerned(program.graph)

    def _concerned(self, graph: GraphModule) -> list[Node]:
        return [node for node in nodes_of(graph, OPERATOR) if self.causal or not AttentionCall.of(node).causal]


def _decomposed(emit: Emitter, a: AttentionCall, masks: _Masks) -> Node:
    scaled = _grouped(emit, emit(aten.mul.Tensor, a.q, a.scale), a)
    scores = emit(aten.bmm.default, scaled, emit(aten.transpose.int, _grouped(emit, a.k, a), 1, 2))
    weights = _softmax(emit, a, _masked(emit, a, _capped(emit, a, scores), masks))
    out = _ungrouped(emit, emit(aten.bmm.default, weights, _grouped(emit, a.v, a)), a)
    return emit(aten.contiguous.default, emit(aten.transpose.int, out, 1, 2))


def _repeats(a: AttentionCall) -> int:
    """The number of query heads per KV head."""
    return int(a.q.meta["val"].shape[1] // a.k.meta["val"].shape[1])


def _times(emit: Emitter, size: int | Node, factor: int) -> int | Node:
    return size * factor if isinstance(size, int) else emit(operator.mul, size, factor)


def _grouped(emit: Emitter, tensor: Node, a: AttentionCall) -> Node:
    """[B,H,S,X] to [B*G,H/G*S,X]: one matrix for each KV head; k and v have H = G."""
    groups = a.k.meta["val"].shape[1]
    rows = _times(emit, emit.size(tensor, 2), tensor.meta["val"].shape[1] // groups)
    return emit(aten.reshape.default, tensor, [_times(emit, emit.size(tensor, 0), groups), rows, emit.size(tensor, 3)])


def _ungrouped(emit: Emitter, out: Node, a: AttentionCall) -> Node:
    """[B*G,H/G*S,Dv] to [B,H,S,Dv]; in two steps where S varies, as the tracer cannot see through one."""
    tokens, width = emit.size(a.q, 2), a.v.meta["val"].shape[3]
    if not isinstance(tokens, int):
        out = emit(aten.reshape.default, out, [emit.size(out, 0), _repeats(a), tokens, width])
    return emit(aten.reshape.default, out, [emit.size(a.q, 0), a.q.meta["val"].shape[1], tokens, width])


def _capped(emit: Emitter, a: AttentionCall, scores: Node) -> Node:
    if not a.softcap:
        return scores
    small = emit(aten.mul.Tensor, scores, 1.0 / a.softcap)
    return emit(aten.mul.Tensor, emit(aten.tanh.default, small), a.softcap)


def _masked(emit: Emitter, a: AttentionCall, scores: Node, masks: _Masks) -> Node:
    if a.causal or a.window:
        key = (a.positions, _repeats(a), a.causal, a.window, scores.meta["val"].dtype)
        if key not in masks:
            masks[key] = _position_mask(emit, a, scores.meta["val"].dtype)
        scores = emit(aten.add.Tensor, scores, masks[key])
    return scores if a.mask is None else emit(aten.add.Tensor, scores, _given_mask(emit, a, a.mask))


def _position_mask(emit: Emitter, a: AttentionCall, dtype: torch.dtype) -> Node:
    """[H/G*S,T]: 0 where a token may look, HIDDEN elsewhere; the rule is ``attention.visible``."""
    queries = emit(aten.cat.default, [a.positions] * _repeats(a)) if _repeats(a) > 1 else a.positions
    rows, columns = emit(aten.unsqueeze.default, queries, 1), emit(aten.unsqueeze.default, a.positions, 0)
    if a.causal:
        seen = emit(aten.ge.Scalar, emit(aten.sub.Tensor, rows, columns), 0)
    else:
        seen = near_keys(emit, columns, rows, a.window)
    if a.window:
        seen = emit(aten.logical_and.default, seen, near_keys(emit, rows, columns, a.window))
    shown = emit(aten.scalar_tensor.default, 0.0, dtype=dtype)
    hidden = emit(aten.scalar_tensor.default, max(HIDDEN, torch.finfo(dtype).min), dtype=dtype)
    return emit(aten.where.self, seen, shown, hidden)


def _given_mask(emit: Emitter, a: AttentionCall, mask: Node) -> Node:
    """The caller's mask, broadcastable to [B,H,S,T], as [1,H/G*S,T] where all heads share it, else [B*G,H/G*S,T]."""
    value = mask.meta["val"]
    tokens, keys = emit.size(a.q, 2), emit.size(a.k, 2)
    if value[..., 0, 0].numel() == 1:
        one = emit(aten.reshape.default, mask, [1, emit.size(mask, -2), emit.size(mask, -1)])
        rows = emit(aten.expand.default, one, [1, tokens, keys])
        return emit(aten.cat.default, [rows] * _repeats(a), 1) if _repeats(a) > 1 else rows
    full = emit(aten.expand.default, mask, [emit.size(a.q, 0), a.q.meta["val"].shape[1], tokens, keys])
    return _grouped(emit, full, a)


def _softmax(emit: Emitter, a: AttentionCall, scores: Node) -> Node:
    if a.sink_logits is None:
        return emit(aten.softmax.int, scores, -1)
    column = emit(aten.reshape.default, a.sink_logits, [1, -1, 1, 1])
    sizes = [emit.size(a.q, 0), -1, emit.size(a.q, 2), 1]
    sink = _grouped(emit, emit(aten.expand.default, column, sizes), a)
    weights = emit(aten.softmax.int, emit(aten.cat.default, [scores, sink], -1), -1)
    return emit(aten.slice.Tensor, weights, 2, 0, emit.size(scores, 2))
