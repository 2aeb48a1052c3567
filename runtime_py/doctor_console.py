"""``edgec doctor`` on a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from edgec.runtime_py.doctor import DoctorCheck, diagnose

COLOURS = {"ok": "green", "missing": "red", "absent": "yellow", "low": "yellow"}


def examine(as_json: bool) -> int:
    """Print the findings to stdout; the exit status is 3 when something required is missing, else 0."""
    checks = diagnose()
    missing = [check.name for check in checks if check.fatal]
    if as_json:
        print(json.dumps({"ok": not missing, "missing": missing, "checks": [check.to_json() for check in checks]}))
    else:
        _print(checks, missing)
    return 3 if missing else 0


def _print(checks: Sequence[DoctorCheck], missing: Sequence[str]) -> None:
    table = Table()
    for column in ("", "status", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        colour = COLOURS[check.status]
        table.add_row(check.name, Text(check.status, colour), Text(check.found), Text(check.fix))
    console = Console()
    console.print(table)
    console.print(f"missing: {', '.join(missing)}" if missing else "Everything that is required is present.")
