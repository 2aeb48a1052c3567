"""The report's pictures: losses of one kind on axes of their own, beside the float model's."""

from __future__ import annotations

import json
import re

import pytest

from edgec.exporter.adapt.checkpoint import Point
from edgec.exporter.adapt.report import Baseline, curve_json, plot, report
from edgec.exporter.adapt.settings import Settings

CURVE = (
    Point(0, 0, None, 3.9, 0.5),
    Point(10, 5_120, 0.45, 3.6, 0.3),
    Point(20, 10_240, 0.31, 3.5, 0.2),
)
FLOAT = Baseline("float model", 3.36)


def panels(settings: Settings, curve: tuple[Point, ...] = CURVE) -> dict[str, list[str]]:
    """Title of each panel -> the names in its legend."""
    charts = re.findall(r"<g transform=.*?</g>", plot(settings, curve, FLOAT))
    named = [re.findall(r'<text[^>]*font-size="13"[^>]*>([^<]*)<', chart)[0] for chart in charts]
    legends = [re.findall(r'<path d="M\d+ \d+h16"[^>]*/><text[^>]*>([^<]*)<', chart) for chart in charts]
    return dict(zip(named, legends, strict=True))


def test_the_text_and_the_teacher_have_a_panel_each() -> None:
    shown = panels(Settings())
    assert shown == {
        "Loss on the text (negative log-likelihood)": ["held out", "float model"],
        "Distance from the teacher (KL divergence)": ["held out", "training"],
    }


def test_the_text_alone_has_one_panel() -> None:
    alone = tuple(Point(p.step, p.tokens, p.loss, p.held_out, None) for p in CURVE)
    shown = panels(Settings(text_loss=1.0), alone)
    assert shown == {"Loss on the text (negative log-likelihood)": ["held out", "float model", "training"]}


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        (Settings(text_loss=0.5), "Training loss (0.5 of the text + 0.5 KL at temperature 1)"),
        (Settings(temperature=2.0), "Training loss (1 KL at temperature 2)"),
        (Settings(hidden_loss=0.1), "Training loss (1 KL at temperature 1 + 0.1 of the layers)"),
    ],
)
def test_a_sum_of_losses_is_compared_with_neither(settings: Settings, title: str) -> None:
    shown = panels(settings)
    assert len(shown) == 3 and shown[title] == ["training"]


def test_the_float_model_is_a_level_line_where_its_loss_is() -> None:
    chart = plot(Settings(), CURVE, FLOAT)
    dashed = re.search(r'<polyline points="([^"]*)"[^>]*stroke-dasharray', chart)
    assert dashed is not None
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in dashed[1].split())
    held_out = [tuple(map(float, p.split(","))) for p in re.findall(r'<polyline points="([^"]*)"', chart)[0].split()]
    assert (x0, x1) == (held_out[0][0], held_out[-1][0]) and y0 == y1
    # Pixels go down, losses up: the float model's is the least, and the axis is as wide as what is shown.
    assert y0 > max(y for _, y in held_out) and y0 - held_out[0][1] > 150


def test_the_numbers_stand_beside_it() -> None:
    table = json.loads(curve_json(Settings(), {}, CURVE, FLOAT))
    assert table["baseline"] == {"name": "float model", "held_out": 3.36}
    assert "3.5000" in report("tiny", {"float model": "3.3600"}, Settings(), CURVE, FLOAT)
