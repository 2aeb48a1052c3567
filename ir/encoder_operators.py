"""Attention in encoder-decoder models, as lowered programs call it: without causal order, or with biased scores.

The C++ kernels (``engine/kernels/encoder_attention.cpp``) compute the same, under ``edgec::NAME.out``.

    edgec::encoder_attention  q [1, S, H, D], keys [1, T, G, D], values [1, T, G, Dv], bias [1, H, S, T] or None
                              -> [1, S, H, Dv]: every query sees every key
    edgec::biased_attention   q [1, S, H, D], positions [S], the caches, bias [1, H, S, slots] -> [1, S, H, Dv]

Values are float32, positions int64; keys and values may be float16 too. ``bias`` is added to the scaled scores: T5's
relative positions, or a mask of -infinity; H and S may be 1, for all heads or queries. The caches of
``biased_attention`` are full ones, as ``edgec::cache_write`` fills them (``operators.py``): slot = position, and a
query sees its own position and those before it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE, Definition, define_with_out, dequantize


def encoder_attention(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """Softmax attention of all query rows over all keys."""
    return _attend(q, keys.float(), values.float(), bias, scale, None)


def biased_attention(
    q: Tensor,
    positions: Tensor,
    keys: Tensor,
    values: Tensor,
    key_grid: Tensor | None,
    value_grid: Tensor | None,
    bias: Tensor,
    scale: float,
) -> Tensor:
    """Causal attention over a full cache, with a bias for each head, query and slot."""
    used = int(positions.max()) + 1
    k, v = dequantize(keys, key_grid)[:, :used], dequantize(values, value_grid)[:, :used]
    hidden = torch.arange(used)[None, :] > positions[:, None]
    return _attend(q, k, v, bias[..., :used], scale, hidden)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float, hidden: Tensor | None) -> Tensor:
    groups = q.shape[2] // k.shape[2]
    k, v = (each.transpose(1, 2).repeat_interleave(groups, 1) for each in (k, v))
    scores = q.transpose(1, 2) @ k.transpose(-1, -2) * scale
    scores = scores if bias is None else scores + bias[..., : k.shape[2]]
    scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
    return (torch.softmax(scores, -1) @ v).transpose(1, 2).contiguous()


def _like_encoder(q: Tensor, keys: Tensor, values: Tensor, *_: Any) -> Tensor:
    return q.new_empty((*q.shape[:-1], values.shape[-1]))


def _like_biased(q: Tensor, positions: Tensor, keys: Tensor, values: Tensor, *_: Any) -> Tensor:
    width = values.shape[-1] * (2 if values.dtype == torch.uint8 else 1)
    return q.new_empty((*q.shape[:-1], width))


_OPERATORS: dict[str, Definition] = {
    "encoder_attention": (
        "Tensor q, Tensor keys, Tensor values, Tensor? bias, float scale",
        encoder_attention,
        _like_encoder,
    ),
    "biased_attention": (
        "Tensor q, Tensor positions, Tensor keys, Tensor values, Tensor? key_grid, Tensor? value_grid, Tensor bias, "
        "float scale",
        biased_attention,
        _like_biased,
    ),
}
# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
define_with_out(_LIBRARY, _OPERATORS)
ENCODER_ATTENTION = torch.ops.edgec.encoder_attention.default
BIASED_ATTENTION = torch.ops.edgec.biased_attention.default
