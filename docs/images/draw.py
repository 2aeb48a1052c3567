"""``python docs/images/draw.py BUNDLE``: the README's pictures, made by the product itself.

`report.png` is the top of the bundle's report in headless chromium, `plan.svg` what `edgec plan` prints at a terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLAN = ("plan", "benchmarks/architectures/qwen3-0.6b.json", "--target", "iphone-15-pro")
WIDTH, HEIGHT, COLUMNS = 1000, 1690, 104
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


if __name__ == "__main__":
    draw_report(report_of(sys.argv[1:]))
    draw_plan()
