from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.runtime_py.decoding.stopping import StopText

LETTERS = st.text(alphabet="abc", max_size=30)


def run(text: str, cuts: list[int], stops: list[str]) -> tuple[str, str | None]:
    filtered, out = StopText(stops), ""
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for begin, end in pairwise(bounds):
        out += filtered.feed(text[begin:end])
        if filtered.hit:
            return out, filtered.hit
    return out + filtered.flush(), None


@given(LETTERS, st.lists(st.integers(0, 30)), st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=3))
def test_any_cutting_gives_the_text_before_the_first_complete_stop(
    text: str, cuts: list[int], stops: list[str]
) -> None:
    ends = [(text.find(s) + len(s), -len(s), s) for s in stops if s in text]
    expected = text[: min(ends)[0] + min(ends)[1]] if ends else text
    assert run(text, cuts, stops) == (expected, min(ends)[2] if ends else None)


def test_a_stop_across_pieces_is_never_shown() -> None:
    stop = StopText(["\n\nUser:"])
    assert [stop.feed(piece) for piece in ("Hello\n", "\nUs", "er", ": and")] == ["Hello", "", "", ""]
    assert stop.hit == "\n\nUser:"


def test_a_false_beginning_is_shown_after_all() -> None:
    stop = StopText(["END"])
    assert [stop.feed("aE"), stop.feed("N"), stop.feed("x"), stop.feed("E"), stop.flush()] == ["a", "", "ENx", "", "E"]


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(InputError, match="E156"):
        StopText(["a", ""])
