"""Tables break between words only, at any width; pipes get wide and plain ones."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from edgec.durations import age, time_left
from edgec.terminal import PIPED_WIDTH, WordTable, counted_bar, make_console

WORDS = ("samsung-galaxy-s24-ultra", "a long text that is wrapped between its words, extraordinarily", "12.5 GB/s")


def table() -> WordTable:
    made = WordTable("phone", "description", "bandwidth", title="Phones", caption="and a caption")
    made.add_row(*WORDS)
    made.add_row("pixel", "[short]", "1")
    return made


def printed(made: WordTable, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(made)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [200, 100, 80, 70, 30])
def test_no_word_is_broken_and_no_line_is_too_long(width: int) -> None:
    text = printed(table(), width)
    assert max(map(len, text.splitlines())) <= width
    for word in " ".join(WORDS).split():
        assert word in text


def test_a_table_that_cannot_be_that_narrow_becomes_a_list() -> None:
    assert "phone: pixel" in printed(table(), 30) and "phone: pixel" not in printed(table(), 80)


def test_optional_columns_are_left_out_before_that() -> None:
    made = table()
    made.optional = ("description",)
    text = printed(made, 45)
    assert "left out (terminal too narrow): description" in text and WORDS[0] in text and "extraordinarily" not in text
    assert "extraordinarily" in printed(made, 100), "a wider console has the column again"


def test_a_title_wider_than_the_table_takes_no_width_from_the_columns() -> None:
    made = WordTable("one", "two", box=None)
    made.min_width = 60
    made.add_row("some words here", "and there")
    assert "some words here" in printed(made, 70)


def test_a_pipe_gets_wide_lines_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    assert (console.width, console.is_terminal) == (PIPED_WIDTH, False)
    console.print("[red]" + "word " * 40)
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and "\x1b" not in out
    console.print(table())
    assert capsys.readouterr().out.isascii(), "no lines are drawn"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), force_terminal=True)
    console.print("[red]x")
    assert not re.search(r"\x1b\[3\dm", console.file.getvalue())  # type: ignore[attr-defined]


def test_without_a_terminal_a_bar_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with counted_bar("compiling") as show:
        for done in range(3):
            show(done, 2)
    assert capsys.readouterr().err == "edgec: compiling\n"


def test_a_bar_that_never_moved_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with counted_bar("compiling"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (45, "45 s"), (89.6, "90 s"), (1697, "28 min"), (3600, "60 min"), (7500, "2 h 5 min")],
)
def test_durations_read_as_people_say_them(seconds: float, said: str) -> None:
    assert time_left(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(-1, "0 s"), (45, "45 s"), (1697, "28 min"), (7500, "2 h"), (4e6, "46 days")]
)
def test_ages_are_whole_units(seconds: float, said: str) -> None:
    assert age(seconds) == said
