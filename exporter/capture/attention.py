"""Capture transformers' attention as edgec's operator: positions decide what is visible, without a mask.

The experts of its models become ``edgec::experts`` in the same way, without family-specific code but for LongCat Flash,
some of whose experts have no matrices.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import statically_known_true

from edgec.exporter.capture.chosen_keys import EveryKey, OpenMask
from edgec.ir.attention import OPERATOR
from edgec.ir.experts import EXPERTS

_POSITIONS: ContextVar[Tensor | None] = ContextVar("edgec_positions", default=None)
# Whether masks of padding are kept, as `UsedKeys`.
_PADDED: ContextVar[bool] = ContextVar("edgec_padded", default=False)
# What masks a model asked for while it is traced: the window of each, 0 for plain causal, None where it is not causal.
_ASKED: ContextVar[set[int | None]] = ContextVar("edgec_masks")
NAME = "edgec"
# What is added to the score of a key that is padding; its share of the softmax is 0 in float32.
_HIDDEN = -1e4


@contextmanager
def query_positions(positions: Tensor) -> Iterator[None]:
    """Make ``positions`` known to the attention layers that are called inside the block."""
    token = _POSITIONS.set(positions)
    try:
        yield
    finally:
        _POSITIONS.reset(token)


def positions_of(tokens: int) -> Tensor:
    """The positions of a model's tokens: those that were made known, else 0, 1, 2, ..."""
    positions = _POSITIONS.get()
    return torch.arange(tokens) if positions is None else positions


def register() -> None:
    """Offer the operator to transformers as ``attn_implementation="edgec"``; masks are left to positions.

    Experts are offered under the same name.
    """
    from transformers import AttentionInterface
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, _from_transformers)
    AttentionMaskInterface.register(NAME, _no_mask)
    ALL_EXPERTS_FUNCTIONS.register(NAME, _experts_from_transformers)


@dataclass(frozen=True)
class Chunks:
    """Stands for the mask of attention within chunks of ``size`` tokens, from where it is made to where it is used."""

    size: int


@dataclass(frozen=True)
class UsedKeys:
    """Stands for a mask that hides keys from all queries alike: ``used`` bool [B, T], false for those of padding."""

    used: Tensor

    def bias(self, query: Tensor) -> Tensor:
        """What is added to the scores of each head, float32 [B, H, 1, T]."""
        hidden = torch.where(self.used, 0.0, _HIDDEN)[:, None, None]
        return hidden.expand(-1, query.shape[1], -1, -1)


@contextmanager
def padding_left_out() -> Iterator[None]:
    """Keep masks of padding that a model makes inside the block: its keys are left out of attention."""
    token = _PADDED.set(True)
    try:
        yield
    finally:
        _PADDED.reset(token)


@contextmanager
def masks_left_out(model: nn.Module) -> Iterator[None]:
    """Give a model whose attention is its own code no mask, or one that hides nothing, while it is traced."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    token = _ASKED.set(set())

    calls_operator = any(
        hasattr(sys.modules[type(each).__module__], "ALL_ATTENTION_FUNCTIONS") for each in model.modules()
    )
    chosen = any(isinstance(each, EveryKey) for each in model.modules())
    own = _open_mask if chosen else _no_mask if calls_operator else _zero_mask
    masks = {NAME: own, "sdpa": _no_mask, "eager": _zero_mask}
    usual = {name: ALL_MASK_ATTENTION_FUNCTIONS[name] for name in masks}
    for name, mask in masks.items():
        AttentionMaskInterface.register(name, mask)
    try:
        yield
    finally:
        _ASKED.reset(token)
        for name, mask in usual.items():
            AttentionMaskInterface.register(name, mask)


def _no_mask(
    *args: Any,
    allow_is_bidirectional_skip: bool | None = None,
    local_size: int | None = None,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> UsedKeys | None:
    """Leave a mask out, and remember what it would have said: only masks that are not causal may be skipped as such.

    What it says of padding stays, where that was asked for.
    """
    _ASKED.get(set()).add((local_size or 0) if allow_is_bidirectional_skip is None else None)
    return UsedKeys(attention_mask.bool()) if _PADDED.get() and attention_mask is not None else None


def _zero_mask(batch_size: int, q_length: int, kv_length: int, **kwargs: Any) -> Tensor:
    """A mask that hides nothing, for code that adds one or changes it without asking whether there is one."""
    _no_mask(**kwargs)
    return torch.zeros(1, 1, 1, 1).expand(batch_size, 1, q_length, kv_length)


def _open_mask(*args: Any, **kwargs: Any) -> OpenMask:
    """A mask for layers that would narrow it by the keys which they choose, and choose all of them."""
    _no_mask(*args, **kwargs)
    return OpenMask()


def chunks(config: Any, *args: Any, **kwargs: Any) -> Chunks:
    """What model files get during capture where they would make a mask of chunks."""
    return Chunks(int(config.attention_chunk_size))


def _from_transformers(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | Chunks | UsedKeys | OpenMask | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    _refuse_unread(module, others)
    scale = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    chunks, mask = (attention_mask, None) if isinstance(attention_mask, Chunks) else (None, attention_mask)
    mask = None if isinstance(mask, OpenMask) else mask
    if isinstance(mask, UsedKeys):
        (query, key), mask = _with_key_bias(query, key, mask.bias(query), scale), None
    if mask is not None and _is_key_bias(mask, query):
        (query, key), mask = _with_key_bias(query, key, mask, scale), None
    own = statically_known_true(query.shape[2] == key.shape[2])
    out = OPERATOR(
        query,
        key,
        value,
        positions_of(query.shape[2]),
        position_bias if mask is None else mask if position_bias is None else mask + position_bias,
        max(0, int(getattr(module, "layer_idx", None) or 0)),  # -1: one module that several layers call
        scale,
        bool(getattr(module, "is_causal", True)) or (own and _asked_causal()),
        -chunks.size if chunks else int(sliding_window or (own and _asked_window())),
        float(softcap or 0.0),
        s_aux,
    )
    return out, None


def _refuse_unread(module: nn.Module, given: Mapping[str, Any]) -> None:
    """Refuse tensors that the family's own attention reads, and edgec's operator has no place for (Inkling 2)."""
    own = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    read: Collection[str] = () if own is None else signature(own).parameters
    unread = [name for name, value in given.items() if name in read and isinstance(value, Tensor)]
    if unread:
        raise ValueError(
            f"{type(module).__name__} gives its attention {', '.join(unread)}, which edgec's does not take"
        )


def _is_key_bias(mask: Tensor, query: Tensor) -> bool:
    """Whether a mask adds the same to all scores of a key, in each head; masks of padding are the same in all heads."""
    heads = mask.dim() == 4 and mask.shape[2] == 1 and 1 < mask.shape[1] == query.shape[1]
    return heads and not statically_known_true(query.shape[2] == 1)


def _with_key_bias(query: Tensor, key: Tensor, bias: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Queries and keys with a further channel, whose product adds a bias [B, H, 1, T]: a cache of keys then holds it.

    Heads that share a key are taken to share its bias, as they do in Doge; the parity ladder compares the result.
    """
    ones = query.new_full((*query.shape[:3], 1), 1.0 / scale)
    channel = bias[:, :: query.shape[1] // key.shape[1]].transpose(2, 3)
    return torch.cat([query, ones], -1), torch.cat([key, channel], -1)


def _asked_causal() -> bool:
    """Whether the model asked for a causal mask; some classes whose tokens attend to each other rely on it alone."""
    return any(each is not None for each in _ASKED.get(set()))


def _asked_window() -> int:
    """The window of the only mask that the model asked for: its layers need not say it again."""
    asked = _ASKED.get(set()) - {None}
    return next(iter(asked)) or 0 if len(asked) == 1 else 0


def _experts_from_transformers(
    module: nn.Module, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor, **_: object
) -> Tensor:
    """What the decorated experts of a model do: up, gate or function, down, and the sum weighted by the router."""
    name = "gate_up_proj" if module.has_gate else "up_proj"
    inner = _multiply(module, name, hidden_states.unsqueeze(1), top_k_index)
    gated: Tensor = module._apply_gate(inner) if module.has_gate else module.act_fn(inner)  # type: ignore[operator]
    out = _multiply(module, "down_proj", gated, top_k_index)
    if module.has_post_expert_norm:
        out = module.post_expert_norm(out)  # type: ignore[operator]
    weighted = out * top_k_weights.unsqueeze(2)
    return weighted.sum(1).to(hidden_states.dtype)


def _multiply(module: nn.Module, name: str, x: Tensor, index: Tensor) -> Tensor:
    weight: Tensor = getattr(module, name)
    bias: Tensor | None = getattr(module, f"{name}_bias") if module.has_bias else None
    out: Tensor = EXPERTS(x, index, weight.transpose(1, 2) if module.is_transposed else weight, bias)
    return out


def identity_experts(module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """The experts of LongCat Flash: those from ``num_routed_experts`` on give a token back as it is."""
    x = hidden_states.unsqueeze(1)
    gate, up = EXPERTS(x, top_k_index, module.gate_up_proj, None).chunk(2, -1)
    # A choice that ``down_proj`` has no matrix for gives zeros.
    out = EXPERTS(module.act_fn(gate) * up, top_k_index, module.down_proj, None)
    kept = (top_k_index >= module.num_routed_experts).unsqueeze(2).to(x.dtype)
    weighted: Tensor = (out + x * kept) * top_k_weights.unsqueeze(2)
    return weighted.sum(1).to(hidden_states.dtype)
