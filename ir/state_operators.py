"""The recurrences of ``recurrence.py`` over a state that lives in the artifact and is written in place.

    edgec::cached_conv           x [1, S, C], weight [K, C], bias?, positions, state [1, 1, K - 1, C], log, seen, silu
    edgec::cached_delta_rule     q, k, v, g, beta, positions, state [1, 1, H, N, P], log, seen, normalize, scale
    edgec::cached_ssd            x, dt, A, B, C, D?, positions, state [1, 1, H, N, P], log, seen
    edgec::cached_scan           x, dt, A [N, W], B, C, D?, positions, state [1, 1, N, W], log, seen
    edgec::cached_recurrence     x, decay, positions, state [1, 1, W], log, seen
    edgec::cached_wkv            k, v, decay, first, positions, state [1, 1, 3, W], log, seen

Operands are those of the operator without a state for one sequence, float32; a filter and A are turned so that
neighbouring values belong to neighbouring channels. A state is [1, slots, ...] as any cache, with one slot.

A state cannot drop a token, and guesses must be. So the state stops before the last L tokens of a call, at the latest
after its first one, and ``log`` [1, L, width] keeps what those tokens write into it; the next call takes in as many of
them as came before it. ``seen`` int64 [1, 1, 2]: the tokens that the state has taken in, and those with the log's. A
row of the log, side by side:

    conv         x                                            C
    delta rule   k (of length 1 where asked), exp(g), write   G * N + H or H * N + H * P
    ssd          B, exp(dt * A), dt * x                       G * N + H + H * P
    scan         dt, dt * x, B                                2 * W + N
    recurrence   decay, x                                     2 * W
    wkv          k, v                                         2 * W

A call that begins at position 0 begins a new sequence; any other must begin at a position that ``seen`` spans, else it
fails: a state cannot go further back, and a gap would give wrong words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgec.ir.operators import NAMESPACE, Definition, define_with_out
from edgec.ir.recurrence import (
    convolve,
    delta_steps,
    each_head,
    recurrence_steps,
    scan_steps,
    ssd_steps,
    unit,
    wkv_after,
    wkv_steps,
)

_HELD = "Tensor positions, Tensor(a!) state, Tensor(b!) log, Tensor(c!) seen"
# One token's row of the log taken into a state [1, ...]: state, row [1, width] -> state.
Advance = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class _Held:
    """What a sequence has left behind: ``state``, ``log`` and ``seen`` of an operator, and how it takes in a row."""

    state: Tensor
    log: Tensor
    seen: Tensor
    advance: Advance

    def begun(self, positions: Tensor) -> Tensor:
        """The state before a call's first token.

        Raises:
            RuntimeError: the call neither begins a sequence nor continues it.
        """
        start, (base, end) = int(positions[0]), self.seen.flatten().tolist()
        if not torch.equal(positions, torch.arange(start, start + len(positions))) or (
            start and not base <= start <= end
        ):
            what = f"a state that has taken in {base} to {end} tokens"
            raise RuntimeError(f"{what} cannot continue at {positions.tolist()[:3]}")
        return self._advanced(self.state[0], self.log[0, : start - base]) if start else torch.zeros_like(self.state[0])

    def keep(self, positions: Tensor, begun: Tensor, rows: Tensor) -> None:
        """Take in a call's tokens, rows [S, width], but for those that may be dropped again."""
        start, count = int(positions[0]), len(rows)
        taken = max(1, count - self.log.shape[1])
        self.state[0].copy_(self._advanced(begun, rows[:taken]))
        self.log[0, : count - taken] = rows[taken:]
        self.seen[0, 0] = torch.tensor([start + taken, start + count])

    def _advanced(self, state: Tensor, rows: Tensor) -> Tensor:
        for row in rows:
            state = self.advance(state, row[None])
        return state


def cached_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    positions: Tensor,
    state: Tensor,
    log: Tensor,
    seen: Tensor,
    silu: bool,
) -> Tensor:
    """``causal_conv``; the state holds the K - 1 tokens before."""
    held = _Held(state, log, seen, lambda before, row: torch.cat([before, row[:, None]], 1)[:, 1:])
    begun = held.begun(positions)
    out = convolve(torch.cat([begun, x], 1), weight.t(), bias, silu)
    held.keep(positions, begun, x[0])
    return out


def cached_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    positions: Tensor,
    state: Tensor,
    log: Tensor,
    seen: Tensor,
    normalize: bool,
    scale: float,
) -> Tensor:
    """``delta_rule`` from the state on."""
    held = _Held(state, log, seen, _matrix_advance(k.shape[2], g[0, 0].numel()))
    begun = held.begun(positions)
    out, writes = delta_steps(q, k, v, g, beta, normalize, scale, begun)
    held.keep(positions, begun, _rows(unit(k) if normalize else k, g.exp(), writes))
    return out


def cached_ssd(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    positions: Tensor,
    state: Tensor,
    log: Tensor,
    seen: Tensor,
) -> Tensor:
    """``ssd`` from the state on."""
    held = _Held(state, log, seen, _matrix_advance(B.shape[2], len(A)))
    begun = held.begun(positions)
    out = ssd_steps(x, dt, A, B, C, D, begun)
    held.keep(positions, begun, _rows(B, (dt * A).exp(), dt[..., None] * x))
    return out


def cached_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    positions: Tensor,
    state: Tensor,
    log: Tensor,
    seen: Tensor,
) -> Tensor:
    """``selective_scan`` from the state on."""

    def advance(before: Tensor, row: Tensor) -> Tensor:
        step, written, b = row.split([x.shape[2], x.shape[2], A.shape[0]], 1)
        result: Tensor = (step[:, None] * A).exp() * before + b[:, :, None] * written[:, None]
        return result

    held = _Held(state, log, seen, advance)
    begun = held.begun(positions)
    out = scan_steps(x, dt, A.t(), B, C, D, begun)
    held.keep(positions, begun, _rows(dt, dt * x, B))
    return out


def cached_recurrence(x: Tensor, decay: Tensor, positions: Tensor, state: Tensor, log: Tensor, seen: Tensor) -> Tensor:
    """``linear_recurrence`` from the state on."""
    width = x.shape[2]
    held = _Held(state, log, seen, lambda before, row: row[:, :width] * before + row[:, width:])
    begun = held.begun(positions)
    out = recurrence_steps(x, decay, begun)
    held.keep(positions, begun, _rows(decay, x))
    return out


def cached_wkv(
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    first: Tensor,
    positions: Tensor,
    state: Tensor,
    log: Tensor,
    seen: Tensor,
) -> Tensor:
    """``wkv`` from the state on."""
    width = k.shape[2]
    held = _Held(state, log, seen, lambda before, row: wkv_after(before, row[:, :width], row[:, width:], decay))
    begun = held.begun(positions)
    out = wkv_steps(k, v, decay, first, begun)
    held.keep(positions, begun, _rows(k, v))
    return out


def _matrix_advance(groups: int, decays: int) -> Advance:
    """How matrices [1, H, N, P] take in a row of keys, decays of heads or of each of their keys, and writes."""

    def advance(before: Tensor, row: Tensor) -> Tensor:
        _, heads, keys, values = before.shape
        k, decay, written = row.split([groups * keys, decays, heads * values], 1)
        spread = each_head(k.reshape(1, 1, groups, keys), heads)[0]
        result: Tensor = decay.reshape(1, heads, -1, 1) * before + spread[..., None] * written.reshape(
            1, heads, 1, values
        )
        return result

    return advance


def _rows(*parts: Tensor) -> Tensor:
    """Parts [1, S, ...] side by side: [S, width]."""
    return torch.cat([part[0].flatten(1) for part in parts], 1)


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
    "cached_wkv": (f"Tensor k, Tensor v, Tensor decay, Tensor first, {_HELD}", cached_wkv, _like_first),
}

# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
define_with_out(_LIBRARY, _OPERATORS)
CACHED_CONV = torch.ops.edgec.cached_conv.default
CACHED_DELTA_RULE = torch.ops.edgec.cached_delta_rule.default
CACHED_SSD = torch.ops.edgec.cached_ssd.default
CACHED_SCAN = torch.ops.edgec.cached_scan.default
CACHED_RECURRENCE = torch.ops.edgec.cached_recurrence.default
CACHED_WKV = torch.ops.edgec.cached_wkv.default
CACHED_STATES = (CACHED_CONV, CACHED_DELTA_RULE, CACHED_SSD, CACHED_SCAN, CACHED_RECURRENCE, CACHED_WKV)
