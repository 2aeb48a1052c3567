"""The cache's geometry against a naive full cache: every feature that moves slots, together."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.ir.attention import visible
from edgec.ir.kv_layout import MASKED, CacheLayout, additive_mask, layout, slot_positions, write_slots

CONTEXT = 64


class NaiveCache:
    """What each slot really holds, written token by token."""

    def __init__(self, where: CacheLayout) -> None:
        self.where, self.held = where, [-1] * where.slots

    def write(self, positions: torch.Tensor) -> None:
        for position, slot in zip(positions.tolist(), write_slots(self.where, positions).tolist(), strict=True):
            self.held[slot] = position


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    window=st.integers(1, 20),
    chunk=st.integers(1, 9),
    sink=st.integers(0, 4),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_a_ring_shows_each_query_exactly_its_window_and_the_sinks(
    window: int, chunk: int, sink: int, sizes: list[int]
) -> None:
    where = layout(window, CONTEXT, chunk, sink)
    cache, start = NaiveCache(where), 0
    for size in (min(size, chunk) for size in sizes):
        if start + size > CONTEXT:
            break
        positions = torch.arange(start, start + size)
        cache.write(positions)
        assert _seen(where, cache, positions) == _wanted(positions, window, sink)
        start += size


def test_a_ring_of_a_chunk_keeps_what_its_queries_see() -> None:
    where = layout(-5, CONTEXT, 3, 0)
    cache = NaiveCache(where)
    for positions in torch.arange(40).split(3):
        cache.write(positions)
        wanted = [set(range(int(p) - int(p) % 5, int(p) + 1)) for p in positions]
        assert _seen(where, cache, positions) == wanted


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(window=st.integers(2, 12), chunk=st.integers(2, 9), length=st.integers(10, 50), undo=st.integers(1, 8))
def test_up_to_chunk_minus_one_tokens_can_be_undone(window: int, chunk: int, length: int, undo: int) -> None:
    where = layout(window, CONTEXT, chunk, 0)
    undo = min(undo, chunk - 1, length - 1)
    cache = NaiveCache(where)
    for position in range(length):
        cache.write(torch.tensor([position]))
    again = torch.tensor([length - undo])
    cache.write(again)
    assert _seen(where, cache, again) == _wanted(again, window, 0)


def _seen(where: CacheLayout, cache: NaiveCache, positions: torch.Tensor) -> list[set[int]]:
    mask = additive_mask(where, positions, torch.float32)
    return [{cache.held[slot] for slot in torch.nonzero(row == 0).flatten().tolist()} for row in mask]


def _wanted(positions: torch.Tensor, window: int, sink: int) -> list[set[int]]:
    keys = torch.arange(CONTEXT)
    near = visible(positions, keys, True, window) | (visible(positions, keys, True, 0) & (keys < sink))
    return [set(torch.nonzero(row).flatten().tolist()) for row in near]


def test_a_window_as_long_as_the_context_needs_no_mask() -> None:
    assert layout(CONTEXT, CONTEXT, 8, 0) == CacheLayout("full", CONTEXT)
    assert not layout(None, CONTEXT, 8, 0).masked


def test_a_ring_that_would_outgrow_the_context_is_a_full_cache_with_a_mask() -> None:
    where = layout(60, CONTEXT, 16, 0)
    assert (where.kind, where.slots, where.masked) == ("full", CONTEXT, True)


def test_a_window_of_w_and_chunks_of_c_take_w_minus_1_plus_c_slots() -> None:
    assert layout(8, CONTEXT, 5, 2).slots == 8 - 1 + 5 + 2


def test_empty_slots_have_negative_positions() -> None:
    held = slot_positions(layout(4, CONTEXT, 2, 0), torch.tensor(1))
    assert sorted(held.tolist()) == [-1, -1, -1, 0, 1]


def test_masks_are_finite_in_their_dtype() -> None:
    for dtype, value in MASKED.items():
        assert torch.isfinite(torch.tensor(value, dtype=dtype))
