"""The README's recorded terminal: an asciicast of version 2, without traces of a machine, drawn as it was recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CASTING: dict[str, Any] = run_path(str(ROOT / "docs" / "images" / "cast.py"))
CAST = (ROOT / "docs" / "images" / "first-export.cast").read_text()
PICTURE = (ROOT / "docs" / "images" / "first-export.svg").read_text()
PICTURE_BYTES = 120_000
MACHINE = re.compile(r"(?<![\w.])~?/\w[^\s]*|\w+@\w+|\b[A-Z]:\\")


def paper(cast: str) -> list[str]:
    """The lines that stand at the end, those scrolled away too."""
    *_, (_, lines) = CASTING["screens"](CASTING["read_cast"](cast)[1])
    return ["".join(character for character, _ in line).rstrip() for line in lines]


def test_the_cast_is_one_of_version_2_and_lasts_about_twenty_seconds() -> None:
    head, *events = [json.loads(line) for line in CAST.splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 80, 24)
    assert all(kind == "o" and isinstance(text, str) for _, kind, text in events)
    times = [seconds for seconds, _, _ in events]
    waits = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    assert min(waits) >= 0 and max(waits) <= CASTING["LONGEST_WAIT"] + 0.002, "times are rounded to milliseconds"
    assert 15 <= times[-1] <= 30


def test_the_cast_is_of_the_session_and_ends_well() -> None:
    lines = paper(CAST)
    typed = "".join(lines)
    assert all(f"{CASTING['PROMPT']}{command}" in typed for command in CASTING["SESSION"])
    assert "parity ladder (measured on this machine)" in lines and "finish: length]" in typed
    assert [line for line in lines if "FAILED" in line or "error" in line] == []


def test_the_cast_tells_nothing_of_the_machine() -> None:
    lines = {line for _, lines in CASTING["screens"](CASTING["read_cast"](CAST)[1]) for line in lines}
    said = "\n".join("".join(character for character, _ in line) for line in lines)
    assert "rewrite" in said and MACHINE.findall(said) == []
    assert MACHINE.findall("~/a /tmp/b me@host C:\\d") == ["~/a", "/tmp/b", "me@host", "C:\\"]


def test_the_readme_shows_figures_of_the_cast() -> None:
    (alt,) = re.findall(r'first-export\.svg"[^>]*alt="([^"]+)"', (ROOT / "README.md").read_text())
    said = " ".join(" ".join(paper(CAST)).split())
    figures = re.findall(r"[\d.,]*\d%?", alt)
    assert len(figures) >= 5 and [figure for figure in figures if figure not in said] == []


def test_the_picture_is_what_the_cast_draws_and_runs_no_script() -> None:
    assert CASTING["cast_picture"](CAST) == PICTURE
    assert CASTING["cast_picture"](CAST.replace("delegates", "DELEGATES")) != PICTURE
    assert len(PICTURE.encode()) < PICTURE_BYTES
    assert re.findall(r"<script|href|url\(|@import|\bon\w+=", PICTURE) == []


def test_the_picture_stands_still_at_the_end_where_nothing_may_move() -> None:
    shown = "".join(re.findall(r'<g style="animation-name:f\d+">(.*)</g>', PICTURE))
    rows = {round((int(y) - 14) / CASTING["HEIGHT"]) for y in re.findall(r' y="(\d+)"', shown)}
    lines = paper(CAST)
    assert rows == {row for row, line in enumerate(lines) if line}
    moved = -CASTING["HEIGHT"] * (len(lines) - CASTING["ROWS"])
    assert f'<g transform="translate(0 {moved})"' in PICTURE
    assert "prefers-reduced-motion:reduce" in PICTURE


def test_each_form_of_a_line_shows_from_its_second_to_the_next() -> None:
    rows = [{"version": 2}, [1.0, "o", "\x1b[1mone\x1b[0m"], [3.0, "o", "\r\x1b[2Ktwo"]]
    drawn = CASTING["cast_picture"]("\n".join(map(json.dumps, rows)))
    assert re.findall(r"@keyframes f\d+(.*)", drawn) == [
        "{0.00%{opacity:0}12.50%{opacity:1}37.50%{opacity:0}}",
        "{0.00%{opacity:0}37.50%{opacity:1}}",
    ]
    assert re.search(r'<g opacity="0"[^>]*><text [^>]*textLength="25.2" font-weight="bold">one</text>', drawn)


def test_a_terminal_wraps_and_overwrites() -> None:
    shots = CASTING["screens"]([(0.0, "abcdef\r\n"), (1.0, "xyz\rX"), (2.0, "\r\x1b[2K\x1b[?25h<")], columns=4)
    texts = [["".join(character for character, _ in line) for line in lines] for _, lines in shots]
    assert texts == [["abcd", "ef", ""], ["abcd", "ef", "Xyz"], ["abcd", "ef", "<"]]


@pytest.mark.parametrize("sequence", ["\x1b[3A", "\x08", "\x1b]0;title\x07"])
def test_a_control_sequence_that_is_not_drawn_is_refused(sequence: str) -> None:
    with pytest.raises(ValueError, match="a control sequence that is not drawn"):
        list(CASTING["screens"]([(0.0, sequence)]))


def test_waits_are_cut_and_redraws_of_a_clock_left_out() -> None:
    bar = "\r\x1b[2Kverify ━━ 95 % \x1b[33m0:00:{}\x1b[0m about {} s to go"
    outputs = [(0.5, bar.format(10, 9)), (2.0, bar.format(11, 8)), (9.0, "done"), (9.2, "done")]
    assert CASTING["shortened"](outputs) == [(0.5, outputs[0][1]), (1.5, "done"), (1.7, "done")]


def test_a_session_is_typed_into_a_shell_and_recorded() -> None:
    cast = CASTING["record"](("echo $((6*7))",))
    assert json.loads(cast.splitlines()[0])["title"] == "echo $((6*7))"
    assert paper(cast) == ["$ echo $((6*7))", "42", "$"]
