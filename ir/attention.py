"""The one attention operator, which model code calls during capture and passes rewrite.

    edgec::attention(q, k, v, positions, mask?, layer, scale, causal, window, softcap, sink_logits?) -> out

``q`` [B, H, S, D], ``k`` [B, G, T, D], ``v`` [B, G, T, Dv] with H a multiple of G (grouped-query attention), float;
``positions`` int64 [S] of the query tokens; ``mask`` float, broadcastable to [B, H, S, T], added to the scores;
``window`` 0 for full attention, else a token sees itself and the ``window - 1`` tokens before it; below 0, those before
it in its own chunk of ``-window`` positions (Llama 4); where not ``causal``, as many after it and all of its chunk;
``softcap`` 0 for none; ``sink_logits`` [H] takes part in the softmax and contributes no value. The result is
[B, S, H, Dv], the layout that the output projection reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

# Scores held at a time, 256 MB in float32: a long sequence is taken in blocks of queries.
_BLOCK_SCORES = 1 << 26


def reference_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    mask: Tensor | None,
    layer: int,
    scale: float,
    causal: bool,
    window: int,
    softcap: float,
    sink_logits: Tensor | None,
) -> Tensor:
    """The operator's meaning in plain torch; keys are those of the same tokens (no cache), T = S."""
    groups = q.shape[1] // k.shape[1]
    keys, values = k.repeat_interleave(groups, 1).transpose(-1, -2), v.repeat_interleave(groups, 1)
    rows = max(1, _BLOCK_SCORES // max(1, q.shape[0] * q.shape[1] * k.shape[2]))
    parts = []
    for start in range(0, q.shape[2], rows):
        block = slice(start, start + rows)
        scores = q[:, :, block] @ keys * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        if causal or window:
            scores = scores.masked_fill(~visible(positions[block], positions, causal, window), -math.inf)
        if mask is not None:
            scores = scores + (mask[..., block, :] if mask.shape[-2] > 1 else mask)
        parts.append(_softmax(scores, sink_logits) @ values)
    return torch.cat(parts, 2).transpose(1, 2).contiguous()


def visible(queries: Tensor, keys: Tensor, causal: bool, window: int) -> Tensor:
    """Which key positions [T] each query position [S] may see: bool [S, T]; ``causal``, or ``window`` is not 0."""
    rows, columns = queries[:, None], keys[None, :]
    seen = rows >= columns if causal else within(columns, rows, window)
    return seen & within(rows, columns, window) if window else seen


def within(queries: Tensor, keys: Tensor, window: int) -> Tensor:
    """Which keys lie in a query's window, or in its chunk where ``window`` is below 0; bool, of the broadcast shape."""
    return keys > queries - window if window > 0 else keys >= queries - queries % -window


def _softmax(scores: Tensor, sink_logits: Tensor | None) -> Tensor:
    if sink_logits is None:
        return torch.softmax(scores, -1)
    sink = sink_logits.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, sink], -1), -1)[..., :-1]


_op = torch.library.custom_op("edgec::attention", reference_attention, mutates_args=())


@_op.register_fake
def _fake(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return q.new_empty((q.shape[0], q.shape[2], q.shape[1], v.shape[3]))


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    q, k, v, positions, mask, *constants, sink = inputs
    ctx.save_for_backward(q, k, v, positions, mask, sink)
    ctx.constants = constants


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Compute gradients by running the reference again: training needs them right, not fast."""
    saved = [t if t is None else t.detach().requires_grad_(t.is_floating_point()) for t in ctx.saved_tensors]
    inputs: Any = (*saved[:5], *ctx.constants, saved[5])
    q, k, v, _, mask, *_, sink = inputs
    with torch.enable_grad():
        out = reference_attention(*inputs)
        wanted = [t for t in (q, k, v, mask, sink) if t is not None]
        grads = iter(torch.autograd.grad(out, wanted, grad, allow_unused=True))
    dq, dk, dv = next(grads), next(grads), next(grads)
    dmask = None if mask is None else next(grads)
    return dq, dk, dv, None, dmask, None, None, None, None, None, None if sink is None else next(grads)


_op.register_autograd(_backward, setup_context=_save)
OPERATOR = torch.ops.edgec.attention.default


LAYER = "edgec_layer"
SPAN_END = "span_end"
"""The input with the last position that each token sees, where that is not its own: attention's ``positions`` then."""


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of one ``edgec::attention`` node, by the operator's own names."""

    q: Node
    k: Node
    v: Node
    positions: Node
    mask: Node | None
    layer: int
    scale: float
    causal: bool
    window: int
    softcap: float
    sink_logits: Node | None

    @classmethod
    def of(cls, node: Node) -> AttentionCall:
        """Read a node; the operator's schema fixes order and types."""
        arguments: Any = node.args
        return cls(*arguments)


def layer_of(node: Node) -> int | None:
    """The layer whose attention output a node is: the operator itself, or what a pass put in its place."""
    if node.target is OPERATOR:
        return int(node.args[5])  # type: ignore[arg-type]
    layer: int | None = node.meta.get(LAYER)
    return layer
