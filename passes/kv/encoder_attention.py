"""Let attention without causal order read all keys: an encoder's own, and a decoder's of its encoder.

    q, k, v [1, H, T, D] -> edgec::attention(causal=False, bias?)                    -> out
    ==>
    q, k, v [1, T, H, D] -> edgec::encoder_attention(bias?)                          -> out

A bias of zeros, which T5 adds to the scores of its cross-attention or to a mask of padding, is left out.

Where ``others_stay`` (a module, whose other attention is written out), what the kernel cannot express is left as it is.

Legality: no window, no soft-capping, no learned sinks, and what is added to the scores has float32 values for all heads
or each, and for all queries or each; the kernel is edgec's own. Exact (measured against transformers on tiny random T5,
BART, Marian and Whisper: 4e-7 of the largest logit).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.attention import LAYER, OPERATOR, AttentionCall
from edgec.ir.encoder_operators import ENCODER_ATTENTION
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.fuse.fuse_rope import swap_axes
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


@dataclass(frozen=True)
class EncoderAttention:
    """Replace attention that is not causal by the operator that sees all keys; exact."""

    others_stay: bool = False
    name: str = "encoder_attention"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The kernel can express every attention node that is not causal.

        Raises:
            InputError: E533.
        """
        for node in _free(program.graph):
            problem = _problem(AttentionCall.of(node))
            if problem and not self.others_stay:
                raise InputError(
                    what="this attention of or to an encoder cannot be executed yet",
                    where=f"layer {node.args[5]}",
                    why=problem,
                    fix="report the architecture; as a module of fixed shapes it may be exported (--task)",
                    code="E533",
                )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each node, and read keys and values as [1, T, G, D]."""
        for node in _free(graph):
            call = AttentionCall.of(node)
            if _problem(call):
                continue
            with graph.graph.inserting_before(node):
                emit = Emitter(graph.graph)
                q, k, v = (swap_axes(emit, each) for each in (call.q, call.k, call.v))
                result = emit(ENCODER_ATTENTION, q, k, v, _bias(call), call.scale)
            result.meta = {**node.meta, LAYER: call.layer, "val": node.meta["val"]}
            node.replace_all_uses_with(result)
            graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """All attention that is left is causal, or beyond the kernel."""
        assert all(self.others_stay and _problem(AttentionCall.of(node)) for node in _free(program.graph))


def _free(graph: GraphModule) -> list[Node]:
    """The attention nodes without causal order."""
    return [node for node in nodes_of(graph, OPERATOR) if not AttentionCall.of(node).causal]


def _bias(call: AttentionCall) -> Node | None:
    """What is added to the scores; None where that is zero."""
    mask: Any = call.mask
    if mask is None or _is_zero(mask):
        return None
    kept = [part for part in mask.args if not _is_zero(part)]
    added = mask.target is aten.add.Tensor and len(kept) == 1 and isinstance(kept[0], Node)
    bias: Node = kept[0] if added else mask
    return bias


def _is_zero(value: object) -> bool:
    return isinstance(value, Node) and value.target is aten.zeros.default


def _is_added(bias: Tensor, q: Tensor) -> bool:
    """Whether the kernel adds it to scores: float32 [1, H or 1, S or 1, T]."""
    (_, heads, queries, _), shape = q.shape, bias.shape
    fits = len(shape) == 4 and shape[0] == 1 and shape[1] in (1, heads) and shape[2] in (1, queries)
    return fits and bias.dtype == torch.float32


def _problem(call: AttentionCall) -> str:
    bias = _bias(call)
    checks = {
        "it has a window": bool(call.window),
        "it soft-caps its scores": bool(call.softcap),
        "it has learned attention sinks": call.sink_logits is not None,
        "it has a mask of another form": bias is not None and not _is_added(bias.meta["val"], call.q.meta["val"]),
        "it reads several sequences at once": call.q.meta["val"].shape[0] != 1,
    }
    return "; ".join(text for text, bad in checks.items() if bad)
