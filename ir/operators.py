"""edgec's own operators, which lowered decoders call: their schemas, and their meaning in plain torch.

The C++ kernels in ``engine/kernels`` compute the same for ExecuTorch, under ``edgec::NAME.out``.

    edgec::rms_norm          x [..., D], weight [D] or None                         -> [..., D]
    edgec::rope              x [1, S, H, D], cos and sin [1, S, R], R <= D          -> [1, S, H, D]
    edgec::cache_write       value [1, S, G, D], positions [S], cache, grid?        -> [1], meaningless
    edgec::cached_attention  q [1, S, H, D], positions [S], written [T], the caches -> [1, S, H, Dv]

Values are float32, positions int64. A cache is [1, slots, G, D] in float32, float16 or int8, or [1, slots, G, D/2] in
uint8: two 4-bit integers a byte, the low nibble first. Integers come with a ``grid``, float16 [1, slots, G,
2 * D / group]: scale and offset of each group of neighbouring values, interleaved, x = scale * q + offset with q in
-128..127 (int8) or 0..15 (int4). Values beyond float16's range (65504) do not survive a cache below float32.
``ring`` 0: slot = position. Otherwise ``ring`` slots turn after ``sink`` fixed ones (``ir/kv_layout.py``).

``cache_write`` returns a tensor of one element because ExecuTorch emits operators through ``.out`` variants.

Static methods call one more operator, which has no kernel in the runner:

    edgec::update_slots      cache [1, G, slots, D], value [1, G, S, D], start int32 [1] -> [1, G, slots, D]

Slots ``start .. start + S - 1`` of its result hold the value, all others what the cache held. Core ML has one
instruction for it (``slice_update``); torch's own ways to say it reach Core ML as a scatter, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from edgec.ir.attention import within
from edgec.ir.kv_layout import CacheLayout, slot_positions, write_slots

NAMESPACE = "edgec"
Definition = tuple[str, Callable[..., Tensor], Callable[..., Tensor]]
# Lowest and highest integer that a cache of this dtype holds.
_INTEGERS = {torch.int8: (-128, 127), torch.uint8: (0, 15)}
_INT4_GROUP = 32


def grid_group(dtype: torch.dtype, width: int) -> int:
    """Neighbouring values of a head ``width`` wide that share scale and offset: all in int8, 32 or a part in int4."""
    return width if dtype == torch.int8 or width <= _INT4_GROUP else math.gcd(width, _INT4_GROUP)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` over the last dimension."""
    normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return normal if weight is None else normal * weight


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first R of D values by halves (transformers' ``rotate_half``); the others pass through."""
    first, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    low, high = first.chunk(2, -1)
    rotated = first * cos.unsqueeze(2) + torch.cat([-high, low], -1) * sin.unsqueeze(2)
    return torch.cat([rotated, rest], -1)


def cache_write(value: Tensor, positions: Tensor, cache: Tensor, grid: Tensor | None, ring: int, sink: int) -> Tensor:
    """Store each token's keys or values in its slot, rounded to the cache's dtype."""
    slots = write_slots(_layout(cache, 0, ring, sink), positions)
    if grid is None:
        cache[:, slots] = value.to(cache.dtype)
        return value.new_zeros(1)
    integers, scales = quantize(value, cache.dtype, value.shape[-1] // (grid.shape[-1] // 2))
    cache[:, slots] = integers
    grid[:, slots] = scales
    return value.new_zeros(1)


def cached_attention(
    q: Tensor,
    positions: Tensor,
    written: Tensor,
    keys: Tensor,
    values: Tensor,
    key_grid: Tensor | None,
    value_grid: Tensor | None,
    scale: float,
    window: int,
    ring: int,
    sink: int,
    softcap: float,
    sink_logits: Tensor | None,
) -> Tensor:
    """Softmax attention of the query rows at ``positions`` over what the cache holds once ``written`` lies in it.

    A key at position p is visible to a query at position P when p <= P and (window == 0 or P - p < window or
    p < sink); a window below 0 is a chunk, as in ``attention.py``. ``softcap`` c turns a scaled score s into
    c * tanh(s / c); 0 leaves it. ``sink_logits`` [H] take part in each softmax and contribute no value. A row that sees
    nothing is zero.
    """
    held = slot_positions(_layout(keys, window, ring, sink), written[-1])
    # Nothing after the last query is visible: most of a full cache is empty most of the time.
    used = keys.shape[1] if ring else int(positions.max()) + 1
    seen = _visible(positions, held[:used], window, sink)
    heads = q.shape[2] // keys.shape[2]
    k, v = (_heads(cache, grid, heads, used) for cache, grid in ((keys, key_grid), (values, value_grid)))
    scores = q.transpose(1, 2) @ k.transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~seen, -math.inf)
    # What is not visible may be uninitialised memory: zero times infinity must not reach the sum.
    v = v.masked_fill(~seen.any(0)[:, None], 0.0)
    return (_softmax(scores, sink_logits) @ v).transpose(1, 2).contiguous()


def update_slots(cache: Tensor, value: Tensor, start: Tensor) -> Tensor:
    """The cache with the value in the slots from ``start`` on."""
    slots = start.long() + torch.arange(value.shape[2])
    return cache.index_copy(2, slots, value)


def quantize(value: Tensor, dtype: torch.dtype, group: int) -> tuple[Tensor, Tensor]:
    """Integers as a cache of ``dtype`` stores them, and their grid.

    Each step is one float32 operation rounded to nearest even, so that any processor gives the same bits.
    """
    low, high = _INTEGERS[dtype]
    parts = value.unflatten(-1, (-1, group))
    least, most = parts.amin(-1), parts.amax(-1)
    scale = ((most - least) / (high - low)).half()
    offset = (scale.float() * -low + least).half()
    inverse = torch.where(scale == 0, 0.0, 1.0 / scale.float())
    steps = ((parts - offset.float().unsqueeze(-1)) * inverse.unsqueeze(-1)).round().clamp(low, high)
    integers = steps.to(dtype).flatten(-2)
    grid = torch.stack([scale, offset], -1).flatten(-2)
    return (integers if dtype == torch.int8 else integers[..., ::2] | integers[..., 1::2] << 4), grid


def dequantize(cache: Tensor, grid: Tensor | None) -> Tensor:
    """A cache's contents in float32, [1, slots, G, D]."""
    if grid is None:
        return cache.float()
    integers = cache if cache.dtype == torch.int8 else torch.stack([cache & 15, cache >> 4], -1).flatten(-2)
    scale, offset = grid.float().unflatten(-1, (-1, 2)).split(1, -1)
    result: Tensor = (integers.unflatten(-1, (scale.shape[-2], -1)) * scale + offset).flatten(-2)
    return result


def _layout(cache: Tensor, window: int, ring: int, sink: int) -> CacheLayout:
    return CacheLayout("ring" if ring else "full", cache.shape[1], abs(window) or None, sink, window < 0)


def _visible(positions: Tensor, held: Tensor, window: int, sink: int) -> Tensor:
    """Which slots each query sees, bool [S, slots]."""
    distance = positions[:, None] - held[None, :]
    near = torch.ones_like(distance, dtype=torch.bool)
    if window:
        near = within(positions[:, None], held[None, :], window) | (held < sink)
    return (distance >= 0) & (held >= 0) & near


def _heads(cache: Tensor, grid: Tensor | None, repeats: int, used: int) -> Tensor:
    """The first ``used`` slots of a cache as [1, H, used, D], each KV head once for every query head that reads it."""
    held = dequantize(cache[:, :used], None if grid is None else grid[:, :used])
    return held.transpose(1, 2).repeat_interleave(repeats, 1)


def _softmax(scores: Tensor, sink_logits: Tensor | None) -> Tensor:
    """Weights over the last dimension; the learned sinks' share is left out."""
    if sink_logits is not None:
        sinks = sink_logits.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, sinks], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return weights if sink_logits is None else weights[..., :-1]


def _same(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _one(value: Tensor, *_: Any) -> Tensor:
    return value.new_empty(1)


def _attended(q: Tensor, positions: Tensor, written: Tensor, keys: Tensor, values: Tensor, *rest: Any) -> Tensor:
    width = values.shape[-1] * (2 if values.dtype == torch.uint8 else 1)
    return q.new_empty((*q.shape[:-1], width))


_WRITTEN = "Tensor value, Tensor positions, Tensor(a!) cache, Tensor(b!)? grid, int ring, int sink"
_ATTENDED = (
    "Tensor q, Tensor positions, Tensor written, Tensor keys, Tensor values, Tensor? key_grid, Tensor? value_grid, "
    "float scale, int window, int ring, int sink, float softcap, Tensor? sink_logits"
)
_UPDATED = "Tensor cache, Tensor value, Tensor start"
_OPERATORS: dict[str, Definition] = {
    "rms_norm": ("Tensor x, Tensor? weight, float eps", rms_norm, _same),
    "rope": ("Tensor x, Tensor cos, Tensor sin", rope, _same),
    "cache_write": (_WRITTEN, cache_write, _one),
    "cached_attention": (_ATTENDED, cached_attention, _attended),
}


def _into(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The ``.out`` variant of an operator: it writes its result into a tensor, as ExecuTorch's programs call it."""

    def variant(*arguments: Any, out: Tensor) -> Tensor:
        result = function(*arguments)
        return out.resize_(result.shape).copy_(result)

    return variant


def define_with_out(library: torch.library.Library, operators: Mapping[str, Definition]) -> None:
    """Define operators and their ``.out`` variants: name -> arguments of the schema, meaning, meaning for shapes."""
    for name, (arguments, meaning, fake) in operators.items():
        library.define(f"{name}({arguments}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
        library.define(f"{name}.out({arguments}, *, Tensor(z!) out) -> Tensor(z!)")
        library.impl(name, meaning, "CPU")
        library.impl(f"{name}.out", _into(meaning), "CPU")
        library.impl(f"{name}.out", _into(fake), "Meta")
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)


def _define(library: torch.library.Library) -> None:
    define_with_out(library, _OPERATORS)
    library.define(f"update_slots({_UPDATED}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl("update_slots", update_slots, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::update_slots", _same, lib=library)


# Kept alive: a library that is collected takes its operators along.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_define(_LIBRARY)
RMS_NORM = torch.ops.edgec.rms_norm.default
ROPE = torch.ops.edgec.rope.default
CACHE_WRITE = torch.ops.edgec.cache_write.default
CACHED_ATTENTION = torch.ops.edgec.cached_attention.default
UPDATE_SLOTS = torch.ops.edgec.update_slots.default
