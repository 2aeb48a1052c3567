"""Messages at a terminal end their lines between words; in a pipe they stay as they are."""

from __future__ import annotations

import io
import sys

import pytest

from edgec.wrapping import wrapped

MESSAGE = "error: There is no MODEL. [E116]\n  fix: Give one, for example `edgec export path/to/model --target host`."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "40")
    lines = wrapped(MESSAGE).splitlines()
    assert lines[0] == "error: There is no MODEL. [E116]"
    assert lines[1] == "  fix: Give one, for example `edgec"
    assert all(len(line) <= 40 for line in lines) and lines[2].startswith("    export")
    assert " ".join(wrapped(MESSAGE).split()) == " ".join(MESSAGE.split())


def test_a_pipe_gets_each_line_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert wrapped(MESSAGE * 5) == MESSAGE * 5
