"""Recurrences and short convolutions over the sequence, as model code calls them during capture.

    edgec::causal_conv(x, weight, bias?, positions, silu) -> y
    edgec::delta_rule(q, k, v, g, beta, positions, normalize, scale) -> y
    edgec::ssd(x, dt, A, B, C, D?, positions) -> y
    edgec::selective_scan(x, dt, A, B, C, D?, positions) -> y
    edgec::linear_recurrence(x, decay, positions) -> y
    edgec::wkv(k, v, decay, first, positions) -> y

Each means the whole sequence from its first token on, without a state, as ``edgec::attention`` does; the pass
``recurrent_states`` gives each a state. Time is the second dimension of every operand, float32; ``positions`` int64
[S] are those of the tokens, and only the pass reads them.

``causal_conv``: x [B, S, C], one filter for each channel, weight [C, K], over a token and the K - 1 before it; then
SiLU where asked.

``delta_rule`` (Gated DeltaNet, arXiv 2412.06464; with g per channel Kimi Delta Attention): q, k [B, S, G, N], v [B, S,
H, P] with H a multiple of G, log decay g [B, S, H] or [B, S, H, N], beta [B, S, H]. Each head holds M [N, P]:
``M = exp(g) M;  M += k (beta (v - k M));  y = scale q M``. ``normalize`` divides q and k by their lengths first.

``ssd`` (Mamba 2, arXiv 2405.21060): x [B, S, H, P], dt [B, S, H] after softplus, A and D [H], B and C [B, S, G, N]:
``M = exp(dt A) M + B (dt x);  y = C M + D x``.

``selective_scan`` (Mamba, arXiv 2312.00752): x, dt [B, S, W], A [W, N], B and C [B, S, N], D [W]; each channel holds
N values: ``h = exp(dt A) h + dt x B;  y = C h + D x``.

``linear_recurrence`` (RG-LRU, arXiv 2402.19427): x, decay [B, S, W]: ``h = decay h + x;  y = h``.

``wkv`` (RWKV 4, arXiv 2305.13048): k, v [B, S, W], log decay and the present token's bonus ``first`` [W]; a channel is
the mean of all values so far, weighted by exp(k): ``y = (n + exp(first + k) v) / (d + exp(first + k));
n = exp(decay) n + exp(k) v;  d = exp(decay) d + exp(k)``. The state holds n and d relative to the exponential of a
third value, their greatest exponent so far, so that none overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad, silu

# As the reference kernels of Gated DeltaNet add to a squared length.
LENGTH_EPS = 1e-6
# The greatest exponent of no token at all.
NO_EXPONENT = -1e30


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor | None, positions: Tensor, silu: bool) -> Tensor:
    """Filter each channel over a token and those before it; nothing lies before the first."""
    return convolve(pad(x, (0, 0, weight.shape[1] - 1, 0)), weight, bias, silu)


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, activated: bool) -> Tensor:
    """Filter each channel of [B, K - 1 + S, C]; returns [B, S, C]."""
    filtered = conv1d(x.transpose(1, 2), weight.unsqueeze(1), bias, groups=weight.shape[0]).transpose(1, 2)
    return (silu(filtered) if activated else filtered).contiguous()


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, positions: Tensor, normalize: bool, scale: float
) -> Tensor:
    """Write into each head's matrix what a key does not yet retrieve, and read it with the query."""
    return delta_steps(q, k, v, g, beta, normalize, scale, None)[0]


def delta_steps(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, normalize: bool, scale: float, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Run ``delta_rule`` from a state [B, H, N, P]; returns outputs, and what each token wrote under its key."""
    q, k = (unit(q), unit(k)) if normalize else (q, k)
    q, k = (each_head(part, v.shape[2]) for part in (q * scale, k))
    held = k.new_zeros(k.shape[0], k.shape[2], k.shape[3], v.shape[3]) if state is None else state
    decay = g.exp() if g.dim() == 4 else g.exp().unsqueeze(-1)
    rows, writes = [], []
    for t in range(v.shape[1]):
        held = held * decay[:, t, :, :, None]
        retrieved = (k[:, t, :, None] @ held).squeeze(2)
        writes.append((v[:, t] - retrieved) * beta[:, t, :, None])
        held = held + k[:, t, :, :, None] * writes[-1][:, :, None]
        rows.append((q[:, t, :, None] @ held).squeeze(2))
    return torch.stack(rows, 1), torch.stack(writes, 1)


def ssd(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None, positions: Tensor) -> Tensor:
    """Run one scalar decay per head over matrices of state."""
    return ssd_steps(x, dt, A, B, C, D, None)


def ssd_steps(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor | None, state: Tensor | None) -> Tensor:
    """Run ``ssd`` from a state [B, H, N, P]."""
    b, c = (each_head(part, x.shape[2]) for part in (b, c))
    held = x.new_zeros(x.shape[0], x.shape[2], b.shape[3], x.shape[3]) if state is None else state
    decay = (dt * a).exp()
    rows = []
    for t in range(x.shape[1]):
        held = held * decay[:, t, :, None, None] + b[:, t, :, :, None] * (dt[:, t, :, None] * x[:, t])[:, :, None]
        rows.append((c[:, t, :, None] @ held).squeeze(2))
    out = torch.stack(rows, 1)
    return out if d is None else out + d[:, None] * x


def selective_scan(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    positions: Tensor,
) -> Tensor:
    """Run a decay per channel and state value, which the token chooses."""
    return scan_steps(x, dt, A, B, C, D, None)


def scan_steps(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor | None, state: Tensor | None
) -> Tensor:
    """Run ``selective_scan`` from a state [B, N, W]."""
    held = x.new_zeros(x.shape[0], a.shape[1], x.shape[2]) if state is None else state
    rows = []
    for t in range(x.shape[1]):
        decay = (dt[:, t, None] * a.t()).exp()
        held = decay * held + b[:, t, :, None] * (dt[:, t] * x[:, t])[:, None]
        rows.append((c[:, t, None] @ held).squeeze(1))
    out = torch.stack(rows, 1)
    return out if d is None else out + d * x


def linear_recurrence(x: Tensor, decay: Tensor, positions: Tensor) -> Tensor:
    """Add each token's values to what decays of the earlier ones."""
    return recurrence_steps(x, decay, None)


def recurrence_steps(x: Tensor, decay: Tensor, state: Tensor | None) -> Tensor:
    """Run ``linear_recurrence`` from a state [B, W]."""
    held = torch.zeros_like(x[:, 0]) if state is None else state
    rows = []
    for t in range(x.shape[1]):
        held = decay[:, t] * held + x[:, t]
        rows.append(held)
    return torch.stack(rows, 1)


def wkv(k: Tensor, v: Tensor, decay: Tensor, first: Tensor, positions: Tensor) -> Tensor:
    """Average each channel's values so far, weighted by the exponentials of their keys."""
    return wkv_steps(k, v, decay, first, None)


def wkv_steps(k: Tensor, v: Tensor, decay: Tensor, first: Tensor, state: Tensor | None) -> Tensor:
    """Run ``wkv`` from a state [B, 3, W], zeros when empty."""
    held = k.new_zeros(k.shape[0], 3, k.shape[2]) if state is None else state
    rows = []
    for t in range(k.shape[1]):
        numerator, denominator, highest = _weighed(held)
        (past, now), _ = _shares(highest, k[:, t] + first)
        rows.append((past * numerator + now * v[:, t]) / (past * denominator + now))
        held = wkv_after(held, k[:, t], v[:, t], decay)
    return torch.stack(rows, 1)


def wkv_after(state: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    """The state [B, 3, W] of ``wkv`` after one more token, k and v [B, W]."""
    numerator, denominator, highest = _weighed(state)
    (past, now), highest = _shares(highest + decay, k)
    return torch.stack([past * numerator + now * v, past * denominator + now, highest], 1)


def _weighed(state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Numerator, denominator and greatest exponent [B, W] of a state; an empty one has no exponent."""
    numerator, denominator, highest = state.unbind(1)
    return numerator, denominator, highest.masked_fill(denominator == 0, NO_EXPONENT)


def _shares(first: Tensor, second: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The exponentials of two exponents relative to the greater one, and that."""
    highest = torch.maximum(first, second)
    return ((first - highest).exp(), (second - highest).exp()), highest


def unit(x: Tensor) -> Tensor:
    """Vectors divided by their lengths."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + LENGTH_EPS)


def each_head(x: Tensor, heads: int) -> Tensor:
    """[B, S, G, N] as [B, S, H, N]: neighbouring heads share."""
    return x.repeat_interleave(heads // x.shape[2], 2)


def _like_first(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _like_third(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(v, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))
    ctx.inputs = [None if isinstance(value, Tensor) else (value,) for value in inputs]


def _backward_of(reference: Callable[..., Tensor]) -> Callable[..., tuple[Tensor | None, ...]]:
    """Gradients by running the reference again: training needs them right, not fast."""

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved = iter(t.detach().requires_grad_(t.is_floating_point()) for t in ctx.saved_tensors)
        inputs = [next(saved) if constant is None else constant[0] for constant in ctx.inputs]
        wanted = [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]
        with torch.enable_grad():
            grads = iter(torch.autograd.grad(reference(*inputs), wanted, grad, allow_unused=True))
        return tuple(next(grads) if any(value is each for each in wanted) else None for value in inputs)

    return backward


def _registered(reference: Callable[..., Tensor], fake: Callable[..., Tensor]) -> Any:
    name = reference.__name__
    operator = torch.library.custom_op(f"edgec::{name}", reference, mutates_args=())
    operator.register_fake(fake)
    operator.register_autograd(_backward_of(reference), setup_context=_save)
    return getattr(torch.ops.edgec, name).default


CAUSAL_CONV = _registered(causal_conv, _like_first)
DELTA_RULE = _registered(delta_rule, _like_third)
SSD = _registered(ssd, _like_first)
SELECTIVE_SCAN = _registered(selective_scan, _like_first)
LINEAR_RECURRENCE = _registered(linear_recurrence, _like_first)
WKV = _registered(wkv, _like_first)
# Each with the index of the argument whose value has the operator's shape, token by token.
VALUE_OF = {CAUSAL_CONV: 0, DELTA_RULE: 2, SSD: 0, SELECTIVE_SCAN: 0, LINEAR_RECURRENCE: 0, WKV: 1}
RECURRENCES = tuple(VALUE_OF)
