"""A table as data, written for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Grid:
    """A table: ``heads`` over ``rows``, the first column is text; ``notes`` stand below it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self, level: int = 3) -> str:
        """The table in GitHub's Markdown, with a heading of that level; 0 leaves out the title."""
        line = "|" + "---|" * len(self.heads)
        body = [_row(self.heads), line, *map(_row, self.rows)]
        head = [f"{'#' * level} {self.title}", ""] if level else []
        return "\n".join([*head, *body, *(["", *self.notes] if self.notes else [])])

    def rich(self) -> Table:
        """The table for a terminal."""
        table = Table(title=self.title, caption="\n".join(self.notes) or None, title_justify="left")
        for index, head in enumerate(self.heads):
            table.add_column(head, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """A number with three significant digits, or "unavailable"."""
    if value is None:
        return "unavailable"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def pair(values: Sequence[float | None]) -> str:
    """The figures with 1 and with 2 threads; a dash where nothing was measured."""
    return " / ".join("-" if value is None else number(value) for value in values) if any(values) else "-"


def megabytes(size: int | None) -> str:
    """A size in MB, or "unavailable"."""
    return number(None if size is None else size / 1e6)
