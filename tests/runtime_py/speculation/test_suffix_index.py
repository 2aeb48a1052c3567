from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.runtime_py.speculation.suffix_index import LONGEST, Match, SuffixIndex

SEQUENCES = st.lists(st.integers(0, 3), max_size=60)


def longest_agreement(tokens: list[int]) -> int:
    """By trying every place: how many tokens before it equal the end; at most LONGEST, 0 below two."""
    ends = [next((n for n in range(LONGEST, 1, -1) if n <= e and tokens[e - n : e] == tokens[-n:]), 0)
            for e in range(1, len(tokens))]  # fmt: skip
    return max(ends, default=0)


@settings(max_examples=300, deadline=None)
@given(SEQUENCES, st.integers(0, 60))
def test_a_match_is_as_long_as_the_best_of_all_places(tokens: list[int], cut: int) -> None:
    index = SuffixIndex()
    index.extend(tokens[:cut])
    index.extend(tokens)
    match, wanted = index.match(), longest_agreement(tokens)
    if match is None:
        assert wanted == 0
        return
    assert tokens[match.next - match.length : match.next] == tokens[-match.length :]
    # Only the 16 newest places are looked at, so a longer agreement further back may be missed, never invented.
    newest = [e for e in range(1, len(tokens)) if tokens[max(0, e - 2) : e] == tokens[-2:]][-16:]
    if len(newest) < 16:
        assert match.length == wanted


def test_the_newest_of_equal_places_wins() -> None:
    index = SuffixIndex()
    index.extend([1, 2, 7, 1, 2, 8, 1, 2])
    assert index.match() == Match(next=5, length=2)
    assert index.following(Match(5, 2), 3) == (8, 1, 2)


def test_a_longer_agreement_beats_a_newer_place() -> None:
    index = SuffixIndex()
    index.extend([5, 1, 2, 7, 1, 2, 8, 5, 1, 2])
    assert index.match() == Match(next=3, length=3)


def test_a_loop_goes_on_past_the_end() -> None:
    index = SuffixIndex()
    index.extend([9, 1, 2, 3, 1, 2, 3])
    match = index.match()
    assert match is not None and index.following(match, 8) == (1, 2, 3, 1, 2, 3, 1, 2)


def test_nothing_is_found_in_new_text() -> None:
    index = SuffixIndex()
    for tokens in ([], [1], [1, 2, 3, 4]):
        index.extend(tokens)
        assert index.match() is None
