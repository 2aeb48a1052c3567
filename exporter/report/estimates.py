"""The report's section on what a phone is expected to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from edgec.exporter.report.parts import UNAVAILABLE, number, section, table


@dataclass(frozen=True)
class Estimate:
    """A figure with its range.

    Attributes:
        name: the quantity.
        between: lowest, likely and highest value; None: unavailable.
        unit: of the values.
    """

    name: str
    between: tuple[float, float, float] | None
    unit: str


def estimated(target: str, rows: Sequence[Estimate]) -> str:
    """The section; empty without estimates."""
    if not rows:
        return ""
    intro = f"<p>Estimated for {escape(target)}, as <code>edgec plan</code> does; nothing was measured there.</p>"
    return section("On the phone", intro, table(("estimated", "likely", "range"), [_row(one) for one in rows], (1, 2)))


def _row(one: Estimate) -> tuple[str, str, str]:
    if one.between is None:
        return escape(one.name), UNAVAILABLE, ""
    low, likely, high = map(number, one.between)
    return escape(one.name), f"{likely} {escape(one.unit)}", f"{low} to {high}"
