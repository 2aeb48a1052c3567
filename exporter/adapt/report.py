"""What a run of training came to, for a reader: one HTML file with the curves, and the model card."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from edgec.exporter.adapt.checkpoint import Point
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.report.style import STYLE
from edgec.runtime_py.svg import Series, line_chart, stack


def report(title: str, facts: Mapping[str, str], settings: Settings, curve: Sequence[Point]) -> str:
    """A self-contained document: the loss over the tokens, and every number behind it."""
    rows = [
        (
            f"{point.step:,}",
            f"{point.tokens:,}",
            _number(point.loss),
            f"{point.held_out:.4f}",
            _number(point.divergence),
        )
        for point in curve
    ]
    heads = ("step", "tokens seen", "training loss", "held-out loss, nats/token", "KL from the teacher, nats/token")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{_table(('', ''), list(facts.items()))}\n<h2>Loss (measured)</h2>\n"
        f"{plot(curve)}\n{_table(heads, rows)}\n<h2>Settings</h2>\n"
        f"{_table(('', ''), [(name, str(value)) for name, value in settings.to_json().items()])}\n"
        "</main>\n</body>\n</html>\n"
    )


def plot(curve: Sequence[Point]) -> str:
    """The curves as SVG: losses, and the distance from the teacher where there is one."""
    held_out = Series("held out", tuple(p.tokens for p in curve), tuple(p.held_out for p in curve))
    loss = [(p.tokens, p.loss) for p in curve if p.loss is not None]
    training = Series("training", tuple(float(x) for x, _ in loss), tuple(y for _, y in loss))
    charts = [line_chart("Loss over the text seen", "tokens", "nats per token", [held_out, training])]
    far = [(p.tokens, p.divergence) for p in curve if p.divergence is not None]
    if far:
        apart = Series("KL", tuple(float(x) for x, _ in far), tuple(y for _, y in far))
        charts.append(line_chart("Distance from the teacher, held-out text", "tokens", "nats per token", [apart]))
    return stack(charts)


def curve_json(settings: Settings, facts: Mapping[str, str], curve: Sequence[Point]) -> str:
    """The same for machines."""
    points: list[dict[str, Any]] = [vars(point) for point in curve]
    table = {"obtained": "measured", "facts": dict(facts), "settings": settings.to_json(), "curve": points}
    return json.dumps(table, indent=1) + "\n"


def model_card(name: str, licence: str | None, facts: Mapping[str, str], curve: Sequence[Point]) -> str:
    """README.md of the folder."""
    head = f"---\nlicense: {licence}\n---\n\n" if licence else ""
    lines = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    last = curve[-1]
    perplexity = math.exp(min(last.held_out, 700))
    return (
        f"{head}# {name}\n\nWritten by `edgec adapt`; export it with `edgec export`. What was done to the model is "
        f"recorded in config.json under `edgec`.\n\n{lines}\n- held-out loss: {last.held_out:.4f} nats per token "
        f"(perplexity {perplexity:.2f}; measured), after {last.tokens:,} tokens\n\nThe curves are in report.html.\n"
    )


def _number(value: float | None) -> str:
    return "unavailable" if value is None else f"{value:.4f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads) if any(heads) else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
