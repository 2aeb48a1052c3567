"""The operators' meaning against independent formulas, and their way through export."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from edgec.ir import operators
from edgec.ir.attention import reference_attention
from edgec.ir.operators import CACHE_WRITE, CACHED_ATTENTION, RMS_NORM, ROPE, grid_group

WIDTH, KV_HEADS, HEADS = 64, 2, 4
# float32 sums in another order; float16 keeps 11 bits of each value, int8 and int4 round to 1/255 and 1/15 of a range.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 5e-3, torch.int8: 3e-2, torch.uint8: 4e-1}


def empty_cache(dtype: torch.dtype, slots: int) -> tuple[Tensor, Tensor | None]:
    """A cache filled with values that must never be read."""
    if dtype.is_floating_point:
        return torch.full((1, slots, KV_HEADS, WIDTH), float("nan"), dtype=dtype), None
    width = WIDTH // 2 if dtype == torch.uint8 else WIDTH
    grid = torch.full((1, slots, KV_HEADS, 2 * WIDTH // grid_group(dtype, WIDTH)), float("nan"), dtype=torch.float16)
    return torch.full((1, slots, KV_HEADS, width), 77, dtype=dtype), grid


@pytest.mark.parametrize("dtype", TOLERANCE)
@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=3, max_size=9),
    back=st.lists(st.integers(0, 5), min_size=9, max_size=9),
    window=st.sampled_from([0, 7]),
    softcap=st.sampled_from([0.0, 2.0]),
    sinks=st.booleans(),
)
def test_cached_attention_is_attention_over_all_tokens(
    dtype: torch.dtype, sizes: list[int], back: list[int], window: int, softcap: float, sinks: bool
) -> None:
    torch.manual_seed(len(sizes))
    total, ring = 54, window - 1 + 6 if window else 0
    q, k, v = (torch.randn(1, total, n, WIDTH) for n in (HEADS, KV_HEADS, KV_HEADS))
    (keys, key_grid), (values, value_grid) = (empty_cache(dtype, ring or total) for _ in range(2))
    logits = torch.randn(HEADS) if sinks else None
    q_heads, k_heads, v_heads = (x.transpose(1, 2) for x in (q, k, v))
    order = (torch.arange(total), None, 0, 0.125, True, window, softcap, logits)
    whole = reference_attention(q_heads, k_heads, v_heads, *order)
    start = newest = 0
    for size, undo in zip(sizes, back, strict=False):
        # A ring has room to undo 5 tokens before the newest one ever written, however many calls undo them.
        start = max(0, start - undo, newest - 5)
        now = torch.arange(start, start + size)
        CACHE_WRITE(k[:, now], now, keys, key_grid, ring, 0)
        CACHE_WRITE(v[:, now], now, values, value_grid, ring, 0)
        rows = now.flip(0)
        caches = (keys, values, key_grid, value_grid)
        out = CACHED_ATTENTION(q[:, rows], rows, now, *caches, 0.125, window, ring, 0, softcap, logits)
        assert float((out - whole[:, rows]).abs().max()) < TOLERANCE[dtype]
        start += size
        newest = max(newest, start)


def test_sink_positions_stay_visible_and_others_leave_the_window() -> None:
    keys = torch.randn(1, 12, KV_HEADS, WIDTH)
    values, q = torch.randn_like(keys), torch.randn(1, 1, HEADS, WIDTH)
    last = torch.tensor([11])

    def attend(changed: int) -> Tensor:
        moved = values.index_fill(1, torch.tensor([changed]), 9.0)
        result: Tensor = CACHED_ATTENTION(q, last, last, keys, moved, None, None, 0.1, 4, 0, 2, 0.0, None)
        return result

    unseen = {slot for slot in range(12) if torch.equal(attend(slot), attend(5))}
    assert unseen == {2, 3, 4, 5, 6, 7}


def test_rope_is_the_rotation_of_transformers() -> None:
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = torch.randn(1, 3, 5, 16), torch.randn(1, 3, 5, 16)
    angle = torch.randn(1, 5, 8).repeat(1, 1, 2)
    wanted, _ = apply_rotary_pos_emb(q, k, angle.cos(), angle.sin())
    assert torch.equal(ROPE(q.transpose(1, 2), angle.cos(), angle.sin()).transpose(1, 2), wanted)
    partly = ROPE(torch.cat([q, k], -1).transpose(1, 2), angle.cos(), angle.sin()).transpose(1, 2)
    assert torch.equal(partly, torch.cat([wanted, k], -1))


def test_rms_norm_is_that_of_torch() -> None:
    x, weight = torch.randn(3, 5, 16), torch.randn(16)
    # One rounding of the mean apart.
    assert torch.allclose(RMS_NORM(x, weight, 1e-6), nn.functional.rms_norm(x, (16,), weight, 1e-6), atol=1e-6)
    assert torch.allclose(RMS_NORM(x, None, 1e-6), nn.functional.rms_norm(x, (16,), None, 1e-6), atol=1e-6)


@pytest.mark.parametrize(("dtype", "steps"), [(torch.int8, 255), (torch.uint8, 15)])
def test_rounding_errs_by_half_a_step(dtype: torch.dtype, steps: int) -> None:
    value = torch.randn(1, 9, KV_HEADS, WIDTH) * 3 + 5
    group = grid_group(dtype, WIDTH)
    error = (operators.dequantize(*operators.quantize(value, dtype, group)) - value).abs().unflatten(-1, (-1, group))
    parts = value.unflatten(-1, (-1, group))
    step = (parts.amax(-1) - parts.amin(-1)) / steps
    # Half a step, plus what rounding scale and offset to 11 bits moves the grid's ends by.
    assert bool((error.amax(-1) <= 0.5 * step + parts.abs().amax(-1) * 2**-10).all())


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_constant_values_are_kept(dtype: torch.dtype) -> None:
    value = torch.full((1, 2, KV_HEADS, WIDTH), 1.25)
    assert torch.equal(operators.dequantize(*operators.quantize(value, dtype, 32)), value)


class Decoder(nn.Module):
    """One layer's worth of operators over a cache that is written in place."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 40, KV_HEADS, WIDTH, dtype=torch.int8))
            self.register_buffer(f"{name}_grid", torch.zeros(1, 40, KV_HEADS, 2, dtype=torch.float16))
        self.weight = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: Tensor, positions: Tensor, angles: Tensor) -> Tensor:
        q = ROPE(RMS_NORM(x, self.weight, 1e-6), angles.cos(), angles.sin())
        k = q[:, :, :KV_HEADS].contiguous()
        caches = (self.keys, self.values, self.keys_grid, self.values_grid)
        CACHE_WRITE(k, positions, self.keys, self.keys_grid, 0, 0)
        CACHE_WRITE(k, positions, self.values, self.values_grid, 0, 0)
        result: Tensor = CACHED_ATTENTION(q, positions, positions, *caches, 0.125, 0, 0, 0, 0.0, None)
        return result


@pytest.mark.long
def test_every_operator_reaches_the_artifact_and_no_cache_is_copied() -> None:
    from executorch.exir import EdgeCompileConfig, to_edge

    size = torch.export.Dim("S", min=2, max=16)
    inputs = (torch.randn(1, 8, HEADS, WIDTH), torch.arange(8), torch.randn(1, 8, 16))
    exported = torch.export.export(Decoder(), inputs, dynamic_shapes=({1: size}, {0: size}, {1: size}))
    config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True)
    emitted = to_edge(exported, compile_config=config).to_executorch().exported_program().graph_module
    called = [node.target for node in emitted.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    names = {target.name() for target in called}
    assert {f"edgec::{n}.out" for n in ("rms_norm", "rope", "cache_write", "cached_attention")} <= names
    assert "aten::copy_" not in names
