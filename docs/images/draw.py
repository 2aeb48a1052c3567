"""``python docs/images/draw.py BUNDLE``: pictures of the README and the guide, made by the product itself.

`report.png` is the top of the bundle's report in headless chromium, `plan.svg` what `edgec plan` prints at a terminal,
`sample.svg` and `sample-android.svg` the screens of the sample apps: the labels of their sources, around a conversation
with that bundle.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLAN = ("plan", "benchmarks/architectures/qwen3-0.6b.json", "--target", "iphone-15-pro")
WIDTH, HEIGHT, COLUMNS = 1000, 1750, 104
SCREEN = ROOT / "apps" / "swift" / "Sample" / "EdgecChat" / "ChatScreen.swift"
ANDROID_SCREEN = ROOT / "apps/android/sample/src/chat/kotlin/dev/edgec/sample/sample/ChatScreen.kt"
PROMPT = "Once upon a time"
USAGE = "usage: python docs/images/draw.py BUNDLE"


def report_of(arguments: list[str]) -> Path:
    """The report of the bundle that the command line names; leaves with a message where there is none.

    Chromium photographs its own error page without complaint.
    """
    if len(arguments) != 1:
        sys.exit(USAGE)
    bundle = Path(arguments[0])
    for name in ("manifest.json", "report.html"):
        if not (bundle / name).is_file():
            sys.exit(f"error: Not an edgec bundle with a report: no {name} in {bundle}\n{USAGE}")
    return bundle / "report.html"


def draw_report(page: Path) -> None:
    """Photograph the report's summary and the first chart of its ladder."""
    with TemporaryDirectory() as folder:
        photo = Path(folder) / "report.png"
        options = ("--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}")
        address = page.resolve().as_uri()
        subprocess.run(["chromium", *options, f"--screenshot={photo}", address], check=True, capture_output=True)
        few_colours = Image.open(photo).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few_colours.save(HERE / "report.png", optimize=True)


def draw_plan() -> None:
    """Record what `edgec plan` prints, down to its verdict."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    command = [sys.executable, "-m", "edgec", *PLAN]
    said = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(f"$ edgec {' '.join(PLAN)}\n{said}"))
    console.save_svg(str(HERE / "plan.svg"), title="edgec plan")


def labels_of(source: str) -> tuple[list[str], str]:
    """The titles of a screen's buttons, as they lie in its source, and what stands in the empty field."""
    return re.findall(r'Button\("([^"]+)"\)', source), re.findall(r'TextField\("([^"]+)"', source)[0]


def sample_picture(source: str, answer: str) -> str:
    """The screen as it lays out while it waits for a message: its labels above and below a conversation."""
    buttons, field = labels_of(source)
    unload, new, send = _while_ready(buttons)
    below = (
        '<rect x="24" y="536" width="240" height="34" rx="8" fill="none" stroke="#c8ccd2"/>',
        _words(36, 558, field, "#8a9099"),
        _words(282, 558, send, "#8a9099"),
    )
    above = (_words(24, 66, unload, "#2f6fde"), _words(120, 66, new, "#2f6fde"))
    return _phone((*above, *_conversation(answer), *below))


def android_labels_of(source: str) -> list[str]:
    """The titles of the buttons of a screen in Compose."""
    return re.findall(r'Button\(.*\{ Text\("([^"]+)"\) \}', source)


def android_picture(source: str, answer: str) -> str:
    """The same screen in Compose, with Material's filled buttons; that for sending is off while nothing is typed."""
    unload, new, send = _while_ready(android_labels_of(source))
    above = (*_pill(24, 42, 84, unload), *_pill(112, 42, 168, new))
    field = '<rect x="24" y="532" width="208" height="48" rx="5" fill="none" stroke="#79747e"/>'
    below = (field, *_pill(238, 536, 76, send, ("#e3e0e5", "#a09da4")))
    return _phone((*above, *_conversation(answer), *below), corner=22)


def _while_ready(buttons: Sequence[str]) -> tuple[str, str, str]:
    """Of all buttons those that show while the model waits: unloading, a new conversation, sending."""
    unload, new, send = (next(label for label in buttons if label.startswith(word)) for word in ("Un", "New", "Send"))
    return unload, new, send


def _conversation(answer: str) -> list[str]:
    lines = [f"You: {PROMPT}", *textwrap.wrap(answer, 36)]
    return [_words(24, 110 + 22 * index, line) for index, line in enumerate(lines)]


def _pill(x: int, y: int, width: int, text: str, colours: tuple[str, str] = ("#6750a4", "#fff")) -> tuple[str, str]:
    box = f'<rect x="{x}" y="{y}" width="{width}" height="40" rx="20" fill="{colours[0]}"/>'
    return box, _words(x + 18, y + 25, text, colours[1])


def _words(x: int, y: int, text: str, colour: str = "#1c1e22") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{escape(text)}</text>'


def _phone(parts: Sequence[str], corner: int = 36) -> str:
    place = f'x="2" y="2" width="336" height="596" rx="{corner}"'
    frame = f'<rect {place} fill="#fff" stroke="#1c1e22" stroke-width="4"/>'
    font = 'font-family="system-ui, sans-serif" font-size="15"'
    inner = "\n".join((frame, *parts))
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 340 600" {font}>\n{inner}\n</svg>\n'


def draw_samples(bundle: Path) -> None:
    """The screens of both samples with what the bundle writes on this machine."""
    import edgec

    written = edgec.load(bundle).generate(PROMPT, max_new_tokens=60, temperature=0.7, seed=1).text
    answer = written.rpartition(".")[0].lstrip(" ,") + "."
    (HERE / "sample.svg").write_text(sample_picture(SCREEN.read_text(), answer))
    (HERE / "sample-android.svg").write_text(android_picture(ANDROID_SCREEN.read_text(), answer))


if __name__ == "__main__":
    draw_report(report_of(sys.argv[1:]))
    draw_plan()
    draw_samples(Path(sys.argv[1]))
