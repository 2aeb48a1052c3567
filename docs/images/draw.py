"""``python docs/images/draw.py BUNDLE``: pictures of the README and the guide, made by the product itself.

`report.png` is the top of the bundle's report in headless chromium, `plan.svg` what `edgec plan` prints at a terminal,
`sample.svg` the sample app's screen: the labels of its source, around a conversation with that bundle.
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
    unload, new, send = (next(label for label in buttons if label.startswith(word)) for word in ("Un", "New", "Send"))
    lines = [f"You: {PROMPT}", *textwrap.wrap(answer, 36)]
    said = [_words(24, 110 + 22 * index, line) for index, line in enumerate(lines)]
    below = (
        '<rect x="24" y="536" width="240" height="34" rx="8" fill="none" stroke="#c8ccd2"/>',
        _words(36, 558, field, "#8a9099"),
        _words(282, 558, send, "#8a9099"),
    )
    above = (_words(24, 66, unload, "#2f6fde"), _words(120, 66, new, "#2f6fde"))
    return _phone((*above, *said, *below))


def _words(x: int, y: int, text: str, colour: str = "#1c1e22") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}">{escape(text)}</text>'


def _phone(parts: Sequence[str]) -> str:
    frame = '<rect x="2" y="2" width="336" height="596" rx="36" fill="#fff" stroke="#1c1e22" stroke-width="4"/>'
    font = 'font-family="system-ui, sans-serif" font-size="15"'
    inner = "\n".join((frame, *parts))
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 340 600" {font}>\n{inner}\n</svg>\n'


def draw_sample(bundle: Path) -> None:
    """The sample's screen with what the bundle writes on this machine."""
    import edgec

    answer = edgec.load(bundle).generate(PROMPT, max_new_tokens=60, temperature=0.7, seed=1).text
    (HERE / "sample.svg").write_text(sample_picture(SCREEN.read_text(), answer.rpartition(".")[0].lstrip(" ,") + "."))


if __name__ == "__main__":
    draw_report(report_of(sys.argv[1:]))
    draw_plan()
    draw_sample(Path(sys.argv[1]))
