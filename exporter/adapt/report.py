"""The results of a training run: one HTML file with the curves, and the model card."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from edgec.exporter.adapt.checkpoint import Point
from edgec.exporter.adapt.settings import Settings
from edgec.exporter.report.style import STYLE
from edgec.svg import Series, line_chart, stack


@dataclass(frozen=True)
class Baseline:
    """The float model that training tries to match.

    Attributes:
        name: what it is called in the report.
        held_out: its negative log-likelihood of the held-out text, nats per token.
    """

    name: str
    held_out: float


def report(title: str, facts: Mapping[str, str], settings: Settings, curve: Sequence[Point], baseline: Baseline) -> str:
    """A self-contained HTML document: the losses over the tokens, and every number that was plotted."""
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
        f"{plot(settings, curve, baseline)}\n{_table(heads, rows)}\n<h2>Settings</h2>\n"
        f"{_table(('', ''), [(name, str(value)) for name, value in settings.to_json().items()])}\n"
        "</main>\n</body>\n</html>\n"
    )


def plot(settings: Settings, curve: Sequence[Point], baseline: Baseline) -> str:
    """The curves as SVG, each kind of loss on its own axes: of the text, from the teacher, and a sum of both."""
    seen = (float(curve[0].tokens), float(curve[-1].tokens))
    goal = Series(baseline.name, seen, (baseline.held_out, baseline.held_out), dashed=True)
    panels = {
        "Loss on the text (negative log-likelihood)": [_series("held out", curve, "held_out"), goal],
        "Distance from the teacher (KL divergence)": [_series("held out", curve, "divergence")],
        f"Training loss ({_mixture(settings)})": [],
    }
    panels[list(panels)[_trained_on(settings)]].append(_series("training", curve, "loss"))
    drawn = {title: [series for series in lines if series.x] for title, lines in panels.items()}
    charts = [
        line_chart(title, "tokens seen", "nats per token", lines, from_zero=goal not in lines)
        for title, lines in drawn.items()
        if lines
    ]
    return stack(charts)


def _trained_on(settings: Settings) -> int:
    """The panel for the training loss: the text's loss (0), the distance from the teacher (1), or neither (2)."""
    if settings.hidden_loss or 0 < settings.text_loss < 1:
        return 2
    if settings.text_loss == 1:
        return 0
    return 1 if settings.temperature == 1 else 2


def _mixture(settings: Settings) -> str:
    parts = {
        "of the text": settings.text_loss,
        f"KL at temperature {settings.temperature:g}": 1 - settings.text_loss,
        "of the layers": settings.hidden_loss,
    }
    return " + ".join(f"{weight:g} {name}" for name, weight in parts.items() if weight)


def _series(name: str, curve: Sequence[Point], field: str) -> Series:
    """One column of the curve, at the points where it was measured."""
    measured = [(float(point.tokens), value) for point in curve if (value := getattr(point, field)) is not None]
    return Series(name, tuple(x for x, _ in measured), tuple(y for _, y in measured))


def curve_json(settings: Settings, facts: Mapping[str, str], curve: Sequence[Point], baseline: Baseline) -> str:
    """The run's settings and curve as JSON, for machines."""
    points: list[dict[str, Any]] = [vars(point) for point in curve]
    table = {"obtained": "measured", "facts": dict(facts), "settings": settings.to_json(), "curve": points}
    table["baseline"] = vars(baseline)
    return json.dumps(table, indent=1) + "\n"


def model_card(
    name: str, licence: str | None, facts: Mapping[str, str], curve: Sequence[Point], adapter: bool = False
) -> str:
    """The README.md of an adapted model's folder, or of an adapter's."""
    head = f"---\nlicense: {licence}\n---\n\n" if licence else ""
    lines = "\n".join(f"- {key}: {value}" for key, value in facts.items())
    last = curve[-1]
    perplexity = math.exp(min(last.held_out, 700))
    use = "export it with `edgec export`. What was done to the model is recorded in config.json under `edgec`."
    if adapter:
        use = "PEFT reads it, and `edgec adapter BUNDLE FOLDER` makes a file of it for a bundle of this recipe."
    return (
        f"{head}# {name}\n\nWritten by `edgec adapt`; {use}\n\n{lines}\n"
        f"- held-out loss: {last.held_out:.4f} nats per token (perplexity {perplexity:.2f}; measured), after "
        f"{last.tokens:,} tokens\n\nThe curves are in report.html.\n"
    )


def _number(value: float | None) -> str:
    return "unavailable" if value is None else f"{value:.4f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads) if any(heads) else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
