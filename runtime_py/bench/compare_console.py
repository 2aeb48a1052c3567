"""The output of ``edgec compare`` on a terminal."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from edgec.runtime_py.bench.compare import Comparison
from edgec.runtime_py.bench.summary import shown

VERDICT = {True: "better", False: "worse", None: "-"}


def report(comparison: Comparison, as_json: bool) -> None:
    """Print the comparison to stdout."""
    if as_json:
        print(json.dumps(asdict(comparison)))
        return
    console = Console()
    console.print(f"A: {comparison.a}\nB: {comparison.b}", soft_wrap=True, markup=False)
    for name, a, b in comparison.differences:
        console.print(f"allowed difference: {name}: {a} and {b}", soft_wrap=True, markup=False)
    console.print(_table(comparison))


def _table(comparison: Comparison) -> Table:
    caption = "measured; medians; 95 % bootstrap interval of the ratio; '-': unavailable, or it holds 1"
    table = Table(caption=caption)
    for column in ("", "A", "B", "unit", "B / A", "interval", "B is"):
        table.add_column(column, justify="right" if column in ("A", "B", "B / A") else "left")
    for row in comparison.ratios:
        interval = "-" if row.low is None else f"{row.low:.2f}-{row.high:.2f}"
        values = (shown(row.a), shown(row.b), row.unit, f"{row.ratio:.2f}", interval, VERDICT[row.better])
        table.add_row(row.name, *values)
    return table
