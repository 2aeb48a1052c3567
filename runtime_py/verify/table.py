"""A verification as a table, or as JSON."""

from __future__ import annotations

import json

from rich.text import Text

from edgec.runtime_py.verify.report import VerifyReport
from edgec.terminal import WordTable, make_console

_STYLES = {"passed": "green", "failed": "bold red", "warning": "yellow", "unavailable": "dim"}


def print_verification(report: VerifyReport, as_json: bool) -> None:
    """Print a report to stdout."""
    if as_json:
        print(json.dumps(report.to_json(), indent=2))
        return
    table = WordTable(title=str(report.bundle), title_justify="left", box=None, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("detail")
    for check in report.checks:
        table.add_row(check.name, Text(check.status, _STYLES[check.status]), Text(check.detail))
    console = make_console()
    console.print(table)
    console.print(Text("verified" if report.passed else "FAILED", "green" if report.passed else "bold red"))
