"""``python docs/images/cast.py``: first-export.svg, a session at a terminal, drawn from the recording beside it.

``python docs/images/cast.py record`` records the session anew first, in an empty folder. The cast is of asciicast's
version 2, with waits cut; the picture moves by CSS alone, since GitHub runs no scripts in pictures.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

HERE = Path(__file__).parent
COLUMNS, ROWS = 80, 24
SESSION = (
    "edgec export tiny-stories --target host",
    'edgec run tiny-stories-host.edgec -p "Once upon a time" --max-new-tokens 60 --temperature 0.7 --seed 1',
)
SHELL = ("bash", "--norc", "--noprofile", "--noediting", "-i")
PROMPT, KEY_SECONDS, LONGEST_WAIT, END_SECONDS = "$ ", 0.05, 1.0, 5.0
# Its own prompt, no trace in the user's history, and no word about zsh on macOS.
ENVIRONMENT = {"PS1": PROMPT, "TERM": "xterm-256color", "HISTFILE": "", "BASH_SILENCE_DEPRECATION_WARNING": "1"}
PIECES = re.compile(r"\x1b\[[\d;?]*[A-Za-z]|.", re.DOTALL)
REDRAW, ERASE = "\r\x1b[2K", "\x1b[2K"
CLOCK = re.compile(r"\x1b\[[\d;?]*[A-Za-z]|\d+:\d\d:\d\d|about .* to go|[━╸╺]")
# What rich writes before coloured text, and how that is drawn; the first is the plain form.
LOOKS = {
    "0": "",
    "1": 'font-weight="bold"',
    "2": 'opacity=".6"',
    "33": 'fill="#d7a53f"',
    "38;5;237": 'fill="#4a4f57"',
    "38;5;197": 'fill="#f92672"',
    "38;5;70": 'fill="#729c1f"',
}
WIDTH, HEIGHT, MARGIN, RATE = 8.4, 18, 14, 25
FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'

Output = tuple[float, str]
"""What a terminal was sent, after its seconds since the start."""
Line = tuple[tuple[str, str], ...]
"""The characters of a line, each with the name of its look."""
Form = TypeVar("Form")


def record(session: Sequence[str] = SESSION) -> str:
    """Type the session into a shell on its own terminal; the cast of what that terminal was sent."""
    with TemporaryDirectory() as folder:
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(folder)
            os.execvpe(SHELL[0], SHELL, {**os.environ, **ENVIRONMENT})
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        outputs = shortened(_played(terminal, session))
        os.close(terminal)
        os.waitpid(process, 0)
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": session[0], "env": {"TERM": ENVIRONMENT["TERM"]}}
    rows = [head, *([seconds, "o", text] for seconds, text in outputs)]
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _played(terminal: int, session: Sequence[str]) -> Iterator[Output]:
    start = time.monotonic()
    keys = [PROMPT, *(key for command in session for key in (*command, f"\n{PROMPT}"))]
    decoder = codecs.getincrementaldecoder("utf-8")()
    heard = ""
    for key in keys:
        if key != PROMPT:
            time.sleep(LONGEST_WAIT if heard.endswith(PROMPT) else KEY_SECONDS)
            os.write(terminal, key[:1].encode())
        heard = ""
        while not heard.endswith(key.lstrip("\n")):
            piece = decoder.decode(os.read(terminal, 65536))
            heard += piece
            yield time.monotonic() - start, piece


def shortened(outputs: Iterable[Output]) -> list[Output]:
    """The outputs without redraws of a progress line that change its clock alone, and with no wait over a second."""
    kept: list[Output] = []
    now, before, line = 0.0, 0.0, ""
    for seconds, text in outputs:
        drawn = CLOCK.sub("", text) if text.startswith(REDRAW) else ""
        if drawn and drawn == line:
            continue
        now, before, line = now + min(seconds - before, LONGEST_WAIT), seconds, drawn
        kept.append((round(now, 3), text))
    return kept


def read_cast(cast: str) -> tuple[dict[str, object], list[Output]]:
    """The head and the outputs of a cast."""
    head, *rows = [json.loads(line) for line in cast.splitlines()]
    return head, [(seconds, text) for seconds, kind, text in rows if kind == "o"]


def screens(outputs: Iterable[Output], columns: int = COLUMNS) -> Iterator[tuple[float, list[Line]]]:
    """All lines since the start, those scrolled away too, after each output."""
    paper: list[list[tuple[str, str]]] = [[]]
    column, look = 0, "0"
    for seconds, text in outputs:
        for piece in PIECES.findall(text):
            if piece == "\r":
                column = 0
            elif piece == "\n":
                paper.append([])
            elif piece == ERASE:
                paper[-1] = []
            elif piece.endswith("m") and piece.startswith("\x1b"):
                look = piece[2:-1] or "0"
            elif not piece.startswith("\x1b[?"):  # those show and hide the cursor, which is not drawn
                column = _put(paper, column, (piece, look), columns)
        yield seconds, [tuple(line) for line in paper]


def _put(paper: list[list[tuple[str, str]]], column: int, cell: tuple[str, str], columns: int) -> int:
    """Write one character, on a new line where the last one is full; the column after it."""
    if ord(cell[0][0]) < 32:
        raise ValueError(f"a control sequence that is not drawn: {cell[0]!r}")
    if column == columns:
        paper.append([])
        column = 0
    paper[-1][column:] = [*[(" ", "0")] * (column - len(paper[-1])), cell, *paper[-1][column + 1 :]]
    return column + 1


def cast_picture(cast: str) -> str:
    """The moving picture: each form of a line is drawn once, and shown from its first second to its last."""
    shots = {round(seconds * RATE) / RATE: lines for seconds, lines in screens(read_cast(cast)[1])}
    length = max(shots) + END_SECONDS
    shown: dict[tuple[float, float], list[str]] = defaultdict(list)
    for row in range(max(map(len, shots.values()))):
        forms = ((seconds, lines[row] if row < len(lines) else ()) for seconds, lines in shots.items())
        for line, start, end in _spans(forms, length):
            shown[start, end] += _drawn(row, line)
    tops = _spans(((seconds, max(0, len(lines) - ROWS)) for seconds, lines in shots.items()), length)
    return _film(shown, tops, length)


def _spans(forms: Iterable[tuple[float, Form]], length: float) -> list[tuple[Form, float, float]]:
    """Each form with the seconds from which and until which it lasts."""
    first: list[tuple[float, Form]] = [next(same) for _, same in groupby(forms, key=lambda form: form[1])]
    ends = [*(seconds for seconds, _ in first[1:]), length]
    return [(form, start, end) for (start, form), end in zip(first, ends, strict=True)]


def _drawn(row: int, line: Line) -> Iterator[str]:
    """A line's groups of words of one look, each as wide as its columns in any font."""
    column = 0
    for look, cells in groupby(line, key=lambda cell: cell[1]):
        text = "".join(character for character, _ in cells)
        for words in re.finditer(r"\S+(?: \S+)*", text):
            x, width = (column + words.start()) * WIDTH, len(words[0]) * WIDTH
            place = f'x="{x:.1f}" y="{row * HEIGHT + 14}" textLength="{width:.1f}"'
            yield f"<text {' '.join(filter(None, (place, LOOKS[look])))}>{escape(words[0], quote=False)}</text>"
        column += len(text)


def _film(shown: dict[tuple[float, float], list[str]], tops: list[tuple[int, float, float]], length: float) -> str:
    """The groups of lines with their times, on a sheet that moves up; without animation, the end is what shows."""
    rules, groups = [], []
    for number, ((start, end), texts) in enumerate((span, texts) for span, texts in shown.items() if texts):
        steps = {0.0: "0", start: "1", **({end: "0"} if end < length else {})}
        rules.append(_keyframes(f"f{number}", {at: f"opacity:{value}" for at, value in steps.items()}, length))
        hidden = ' opacity="0"' if end < length else ""
        groups.append(f'<g{hidden} style="animation-name:f{number}">{"".join(texts)}</g>')
    moves = {start: f"transform:translateY({-top * HEIGHT}px)" for top, start, _ in tops}
    rules.append(_keyframes("sheet", moves, length))
    sheet = f'<g transform="translate(0 {-tops[-1][0] * HEIGHT})" style="animation-name:sheet">'
    wide, high = COLUMNS * WIDTH, ROWS * HEIGHT
    box = f"0 0 {wide + 2 * MARGIN:g} {high + 2 * MARGIN:g}"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {FONT}>',
            f"<style>g{{animation:{length:g}s step-end infinite}}",
            "@media (prefers-reduced-motion:reduce){g{animation:none!important}}",
            *rules,
            "</style>",
            '<rect width="100%" height="100%" rx="8" fill="#1c1e22"/>',
            f'<svg x="{MARGIN}" y="{MARGIN}" width="{wide:g}" height="{high}" fill="#d6d9de">{sheet}',
            *groups,
            "</g></svg></svg>\n",
        )
    )


def _keyframes(name: str, steps: dict[float, str], length: float) -> str:
    return f"@keyframes {name}{{{''.join(f'{100 * at / length:.2f}%{{{what}}}' for at, what in steps.items())}}}"


if __name__ == "__main__":
    recording = HERE / "first-export.cast"
    if sys.argv[1:] == ["record"]:
        recording.write_text(record())
    recording.with_suffix(".svg").write_text(cast_picture(recording.read_text()))
