from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgec.bundle.entry_points import Limits
from edgec.runtime_py.sessions.cache_contents import CacheContents
from edgec.runtime_py.speculation.draft import DraftLimits
from tests.runtime_py.fake_stepper import recurrent_states, ring_state


def test_a_full_cache_rewinds_anywhere_and_has_no_gaps() -> None:
    cache = CacheContents()
    cache.write(0, [5, 6, 7, 8])
    assert [cache.continues_at(i) for i in (-1, 0, 2, 4, 5)] == [False, True, True, True, False]
    assert cache.reusable([5, 6, 9]) == 2
    assert cache.reusable([5, 6, 7, 8]) == 3
    assert cache.reusable([9]) == 0
    cache.write(2, [1])
    assert cache.tokens == [5, 6, 1]


def test_a_ring_rewinds_as_far_as_its_slack() -> None:
    cache = CacheContents([ring_state(slots=14, window=8, sink_tokens=2)])
    cache.write(0, range(12))
    assert cache.continues_at(1), "nothing was overwritten yet"
    cache.write(12, range(12, 20))
    assert cache.continues_at(16)
    assert not cache.continues_at(15)
    assert cache.reusable([*range(15), 99]) == 0
    cache.write(16, [7])
    assert not cache.continues_at(15), "what the ring overwrote before the rewind stays lost"
    cache.write(0, [1, 2])
    assert cache.continues_at(1)


def test_what_is_being_written_is_not_held_until_it_is() -> None:
    cache = CacheContents([ring_state(slots=14, window=8)])
    cache.write(0, range(12))
    cache.begin(10, 4)
    assert cache.tokens == list(range(10)) and cache.reusable(range(12)) == 10
    cache.begin(10, 10)
    assert cache.reusable(range(12)) == 0, "the ring may have been overwritten beyond its slack"
    cache.begin(0, 3)
    assert (cache.tokens, cache.high_water) == ([], 3)


class _RealRing:
    """Slots with the position each really holds; attention reads the window before the position it writes."""

    def __init__(self, slots: int, window: int) -> None:
        self.slots: list[int | None] = [None] * slots
        self.window = window
        self.version = 0

    def write(self, position: int) -> bool:
        """Whether every position of the window is present, as attention by slot arithmetic would find it."""
        size = len(self.slots)
        self.slots[position % size] = position
        wanted = range(max(0, position - self.window + 1), position + 1)
        return all(self.slots[p % size] == p for p in wanted)


@given(st.integers(1, 6), st.integers(0, 5), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 3)), max_size=12))
def test_what_is_allowed_is_right_in_a_simulated_ring(window: int, slack: int, moves: list[tuple[int, int]]) -> None:
    cache = CacheContents([ring_state(slots=window + slack, window=window)])
    ring = _RealRing(window + slack, window)
    for start, count in moves:
        if cache.continues_at(start):
            for position in range(start, start + count):
                assert ring.write(position)
            cache.write(start, [0] * count)


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.booleans()), max_size=20))
def test_a_recurrence_goes_back_as_its_kernel_does_whatever_was_interrupted(
    log: int, moves: list[tuple[int, int, bool]]
) -> None:
    """The kernel counts the tokens that a state has taken in, and those that its log holds."""
    cache = CacheContents(recurrent_states(log))
    taken = seen = 0
    for start, count, interrupted in moves:
        if cache.continues_at(start):
            assert start == 0 or taken <= start <= seen, "the kernel would refuse this call"
            taken, seen = start + max(1, count - log), start + count
            cache.begin(start, count)
            if not interrupted:
                cache.write(start, [0] * count)
                assert cache.continues_at(seen), "a sequence can always be continued"
        else:
            assert start != 0


def test_a_recurrence_drops_the_last_tokens_of_a_call_but_never_its_first_one() -> None:
    cache = CacheContents(recurrent_states(log=3))
    cache.write(0, range(10))
    assert [cache.continues_at(i) for i in (6, 7, 9, 10, 11)] == [False, True, True, True, False]
    cache.write(10, [1, 2])
    assert [cache.continues_at(i) for i in (10, 11, 12)] == [False, True, True]
    cache.write(11, [5])
    assert cache.reusable([*range(10), 1, 5, 9]) == 12 and cache.reusable([*range(10), 1, 6]) == 0
    cache.hold(range(8), 12)
    assert cache.continues_at(8) and not cache.continues_at(7), "what a file's calls were is not known"


def test_drafts_are_no_longer_than_the_log() -> None:
    limits = Limits(context=64, prefill_chunk=32, logit_rows=16)
    assert DraftLimits.of(limits, recurrent_states(log=5)).most == 5
    assert DraftLimits.of(limits, recurrent_states(log=9)[1:]).most == 9
    assert DraftLimits.of(limits, recurrent_states(log=9)[1:2]).most == 0
