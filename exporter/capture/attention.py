"""Capture transformers' attention as edgec's operator: positions decide what is visible, without a mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from edgec.exporter.capture import experts
from edgec.ir.attention import OPERATOR

_POSITIONS: ContextVar[Tensor | None] = ContextVar("edgec_positions", default=None)
NAME = "edgec"
OWN_CODE = ("sdpa", "eager")
"""What families are built with that choose among attention classes of their own."""


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
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, _from_transformers)
    AttentionMaskInterface.register(NAME, _no_mask)
    experts.register()


@contextmanager
def masks_left_out() -> Iterator[None]:
    """Give families with attention code of their own no mask, as those get none that call the operator."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    usual = {name: ALL_MASK_ATTENTION_FUNCTIONS[name] for name in OWN_CODE}
    for name in OWN_CODE:
        AttentionMaskInterface.register(name, _no_mask)
    try:
        yield
    finally:
        for name, mask in usual.items():
            AttentionMaskInterface.register(name, mask)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    return None


def _from_transformers(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    out = OPERATOR(
        query,
        key,
        value,
        positions_of(query.shape[2]),
        attention_mask,
        int(getattr(module, "layer_idx", 0)),
        float(query.shape[-1] ** -0.5 if scaling is None else scaling),
        bool(getattr(module, "is_causal", True)),
        int(sliding_window or 0),
        float(softcap or 0.0),
        s_aux,
    )
    return out, None
