"""The linter's findings for people: a table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgec.backends.coreml.lint import Finding

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS = {"refused": "red", "warning": "yellow"}


def lint_table(findings: Sequence[Finding]) -> Table:
    """Rule, severity, place, what was found and what to do, one row for each finding."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Core ML linter", title_justify="left")
    for heading in ("severity", "rule", "place", "found", "fix"):
        table.add_column(heading, overflow="fold")
    for each in findings:
        severity = Text(each.severity, style=_COLOURS[each.severity])
        table.add_row(severity, each.rule, *(Text(text) for text in (each.place, each.found, each.fix)))
    return table
