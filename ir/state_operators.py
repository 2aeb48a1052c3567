"""The recurrences of ``recurrence.py`` over a state that lives in the artifact and is written in place.

    edgec::cached_conv               x [1, S, C], weight [K, C], bias?, positions, state [1, 1, K - 1, C], seen, silu
    edgec::cached_delta_rule         q, k, v, g, beta, positions, state [1, 1, H, N, P], seen, normalize, scale
    edgec::cached_ssd                x, dt, A, B, C, D?, positions, state [1, 1, H, N, P], seen
    edgec::cached_scan               x, dt, A [N, W], B, C, D?, positions, state [1, 1, N, W], seen
    edgec::cached_recurrence         x, decay, positions, state [1, 1, W], seen

Operands are those of the operator without a state for one sequence, float32; a filter and A are turned so that
neighbouring values belong to neighbouring channels. A state is [1, slots, ...] as any cache, with one slot. ``seen``
int64 [1, 1] counts the tokens that the state has taken in.
A call that begins at position 0 begins a new sequence; any other must begin at ``seen``, else it fails: a state cannot
go back, and a gap would give wrong words.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE, Definition, define_with_out
from edgec.ir.recurrence import convolved, delta_steps, recurrence_steps, scan_steps, ssd_steps

_HELD = "Tensor positions, Tensor(a!) state, Tensor(b!) seen"


def cached_conv(
    x: Tensor, weight: Tensor, bias: Tensor | None, positions: Tensor, state: Tensor, seen: Tensor, silu: bool
) -> Tensor:
    """``causal_conv``; the state holds the K - 1 tokens before."""
    joined = torch.cat([_begun(positions, state, seen), x], 1)
    out = convolved(joined, weight.t(), bias, silu)
    state[0].copy_(joined[:, joined.shape[1] - state.shape[2] :])
    return out


def cached_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    positions: Tensor,
    state: Tensor,
    seen: Tensor,
    normalize: bool,
    scale: float,
) -> Tensor:
    """``delta_rule`` from the state on."""
    return _kept(state, delta_steps(q, k, v, g, beta, normalize, scale, _begun(positions, state, seen)))


def cached_ssd(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    positions: Tensor,
    state: Tensor,
    seen: Tensor,
) -> Tensor:
    """``ssd`` from the state on."""
    return _kept(state, ssd_steps(x, dt, A, B, C, D, _begun(positions, state, seen)))


def cached_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    positions: Tensor,
    state: Tensor,
    seen: Tensor,
) -> Tensor:
    """``selective_scan`` from the state on."""
    return _kept(state, scan_steps(x, dt, A.t(), B, C, D, _begun(positions, state, seen)))


def cached_recurrence(x: Tensor, decay: Tensor, positions: Tensor, state: Tensor, seen: Tensor) -> Tensor:
    """``linear_recurrence`` from the state on."""
    return _kept(state, recurrence_steps(x, decay, _begun(positions, state, seen)))


def _begun(positions: Tensor, state: Tensor, seen: Tensor) -> Tensor:
    """What a call starts from; counts its tokens.

    Raises:
        RuntimeError: the call neither begins a sequence nor continues it.
    """
    start = int(positions[0])
    if start not in (0, int(seen)) or not torch.equal(positions, torch.arange(start, start + len(positions))):
        raise RuntimeError(f"a state that has taken in {int(seen)} tokens cannot continue at {positions.tolist()[:3]}")
    seen.fill_(start + len(positions))
    return state[0].clone() if start else torch.zeros_like(state[0])


def _kept(state: Tensor, result: tuple[Tensor, Tensor]) -> Tensor:
    out, last = result
    state[0].copy_(last)
    return out


def _like_first(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _like_third(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(v, memory_format=torch.contiguous_format)


_MIXED = f"Tensor x, Tensor dt, Tensor A, Tensor B, Tensor C, Tensor? D, {_HELD}"
_OPERATORS: dict[str, Definition] = {
    "cached_conv": (f"Tensor x, Tensor weight, Tensor? bias, {_HELD}, bool silu", cached_conv, _like_first),
    "cached_delta_rule": (
        f"Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, {_HELD}, bool normalize, float scale",
        cached_delta_rule,
        _like_third,
    ),
    "cached_ssd": (_MIXED, cached_ssd, _like_first),
    "cached_scan": (_MIXED, cached_scan, _like_first),
    "cached_recurrence": (f"Tensor x, Tensor decay, {_HELD}", cached_recurrence, _like_first),
}

# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
define_with_out(_LIBRARY, _OPERATORS)
CACHED_CONV = torch.ops.edgec.cached_conv.default
CACHED_DELTA_RULE = torch.ops.edgec.cached_delta_rule.default
CACHED_SSD = torch.ops.edgec.cached_ssd.default
CACHED_SCAN = torch.ops.edgec.cached_scan.default
CACHED_RECURRENCE = torch.ops.edgec.cached_recurrence.default
CACHED_STATES = (CACHED_CONV, CACHED_DELTA_RULE, CACHED_SSD, CACHED_SCAN, CACHED_RECURRENCE)
