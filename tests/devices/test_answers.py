"""Reading devices' answers: text made plain, numbers within ranges, JSON within limits."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from edgec.devices import answers
from edgec.devices.answers import AnswerFault, json_among, number, parsed, plain, printable

HOSTILE = "\x1b]0;owned\x07\x1b[31mPixel\u202e 8\x9b2J\u200b\n[/nope]\ttwo\r\x00\ud800"


def test_nothing_that_a_terminal_obeys_comes_through() -> None:
    assert plain(HOSTILE) == "]0;owned[31mPixel 82J [/nope] two"
    assert printable("a\nb\tc\x1b[2J") == "a\nb\tc[2J"
    assert len(plain("x" * 10**6)) == answers.MOST_TEXT
    assert [plain(value) for value in (None, 5, {"a": 1}, [["x"]])] == [""] * 4
    assert plain("Grüße 你好 😀") == "Grüße 你好 😀"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("31.2", 31.2),
        ("-4", -4.0),
        ("1.2.3", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("9" * 5000, None),
        ("٣", None),
        ("²", None),
        ("151", None),
        ("-51", None),
    ],
)
def test_a_number_is_plain_and_within_its_range(text: str, expected: float | None) -> None:
    assert number(text, answers.COLDEST_C, answers.HOTTEST_C) == expected


@pytest.mark.parametrize("text", ["0", "-1", "NaN", "1e400", '"5"x', "9" * 5000, "[" * 100_000, "86400001", "null", ""])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(AnswerFault):
        parsed(TypeAdapter(answers.Milliseconds), text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 100_000,
        "{" * 100_000,
        '{"a":' * 300 + "1" + "}" * 300,
        '{"a": NaN}',
        '{"' * 50_000,
    ],
)
def test_json_outside_its_limits_is_refused_and_takes_no_time(text: str) -> None:
    with pytest.raises(AnswerFault):
        json_among(text, "{")


def test_an_answer_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_JSON", 10)
    for read in (lambda text: json_among(text, "["), lambda text: parsed(TypeAdapter(list[int]), text)):
        with pytest.raises(AnswerFault, match="characters"):
            read(f"[{'1,' * 10}1]")


def test_json_among_log_lines() -> None:
    assert json_among('WARNING [x] {no} {}\n[{"a": 1}]\n', "[") == [{"a": 1}]
    assert json_among("nothing", "[") is None and json_among(f"[{'9' * 5000}]", "[") is None
