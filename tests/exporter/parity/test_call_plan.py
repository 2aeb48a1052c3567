"""How a decoder is fed on the ladder: every shape a caller may use, whatever context, chunk and window."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.exporter.parity.probe import make_probe
from edgec.ir.call_plan import Call, call_plan, compared_positions

LEAST = 12


@given(st.integers(1, 700), st.integers(1, 300), st.integers(1, 16))
def test_every_plan_covers_its_tokens_in_order(length: int, chunk: int, rows: int) -> None:
    rows = min(rows, chunk)
    calls = call_plan(length, chunk, rows)
    *first, last = calls
    again = bool(first) and last.start == 0
    covering = first if again else calls
    assert [call.start for call in covering] == [0, *(call.start + call.size for call in covering[:-1])]
    assert covering[-1].start + covering[-1].size == length
    assert all(0 < call.rows <= min(call.size, rows) and call.size <= chunk for call in calls)
    assert not again or last.size == min(chunk, length)


@given(st.integers(LEAST, 700), st.integers(2, 300), st.integers(1, 16))
def test_every_plan_runs_prefill_a_whole_chunk_and_several_single_tokens(length: int, chunk: int, rows: int) -> None:
    calls = call_plan(length, chunk, min(rows, chunk))
    assert calls[0].size > 1
    assert min(chunk, length) in {call.size for call in calls}
    assert sum(call.size == 1 and call.start > 0 for call in calls) >= 4
    # Something follows a call of many tokens: what it leaves behind is read.
    assert any(one.size > 1 and other.start == one.start + one.size for one, other in pairwise(calls))


def test_a_context_of_one_chunk_still_decodes() -> None:
    calls = call_plan(64, 64, 8)
    assert [call.size for call in calls] == [32, 10, 1, 1, 1, 8, 7, 1, 1, 1, 1, 64]
    assert calls[-1] == Call(0, 64, 8)
    assert compared_positions(calls)[-8:] == list(range(56, 64))


@pytest.mark.parametrize("window", [20, 130, 512, 1500])
@pytest.mark.parametrize("chunk", [1, 64, 128, 512])
def test_a_probe_goes_on_after_a_window_and_its_ring(window: int, chunk: int) -> None:
    probe = make_probe(None, 50, 4096, chunk, min(8, chunk), None, window=window)
    ring = window - 1 + chunk
    assert len(probe.tokens) > ring + 8
    assert any(call.start < ring <= call.start + call.size for call in probe.plan)
    assert sum(call.size == 1 and call.start > ring for call in probe.plan) >= 4


def test_seeded_tokens_leave_padding_out() -> None:
    assert 3 in make_probe(None, 50, 512, 64, 1, None).tokens
    assert 3 not in make_probe(None, 50, 512, 64, 1, None, padding=3).tokens


@pytest.mark.parametrize("chunk", [1, 16, 63, 64])
def test_a_probe_never_leaves_the_context(chunk: int) -> None:
    probe = make_probe(None, 50, 64, chunk, 1, None, window=40)
    assert len(probe.tokens) == 64
    assert max(call.start + call.size for call in probe.plan) == 64
