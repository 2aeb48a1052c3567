"""How far tokens see, and calls that cut nothing apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgec.bundle.entry_points import Ahead
from edgec.bundle.noncausal_spans import span_ends, whole_calls

IMAGE = 9
TEXT = [1, IMAGE, IMAGE, 2, IMAGE, 3, IMAGE, IMAGE]


def test_rows_see_to_the_end_of_their_own_image() -> None:
    assert span_ends("image", TEXT, IMAGE, len(TEXT)).tolist() == [0, 2, 2, 3, 4, 5, 7, 7]


def test_a_prompt_with_images_sees_to_its_end_and_one_without_does_not() -> None:
    assert span_ends("prompt", TEXT, IMAGE, 6).tolist() == [5, 5, 5, 5, 5, 5, 6, 7]
    assert span_ends("prompt", [1, 2, 3], IMAGE, 3).tolist() == [0, 1, 2]


def test_causal_tokens_see_themselves() -> None:
    assert span_ends("none", TEXT, IMAGE, len(TEXT)).tolist() == list(range(len(TEXT)))
    assert span_ends("image", [], IMAGE, 0).tolist() == []


@given(
    st.lists(st.sampled_from([1, 2, IMAGE]), max_size=40),
    st.sampled_from(["none", "image", "prompt"]),
    st.integers(1, 12),
)
def test_calls_take_every_token_and_hold_what_it_sees(tokens: list[int], ahead: Ahead, chunk: int) -> None:
    span_end = span_ends(ahead, tokens, IMAGE, len(tokens))
    sizes = whole_calls(span_end, 0, chunk)
    ends = np.cumsum(sizes).tolist()
    assert sum(sizes) == len(tokens) and all(size > 0 for size in sizes)
    for start, end in zip([0, *ends], ends, strict=False):
        assert span_end[start:end].max() < end
        # A call that is too long could not be cut anywhere.
        assert end - start <= chunk or all(span_end[start:i].max() >= i for i in range(start + 1, end))


def test_calls_are_as_long_as_they_may_be() -> None:
    assert whole_calls(np.arange(10), 0, 4) == [4, 4, 2]
    assert whole_calls(np.arange(10), 3, 4) == [4, 3]
    assert whole_calls(span_ends("image", TEXT, IMAGE, 8), 0, 4) == [4, 4]
    assert whole_calls(span_ends("image", TEXT, IMAGE, 8), 0, 2) == [1, 2, 2, 1, 2]
