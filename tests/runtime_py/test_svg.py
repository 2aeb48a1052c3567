"""Charts: what is drawn where."""

from __future__ import annotations

import re

import pytest

from edgec.runtime_py.svg import Series, log_chart


def drawn(chart: str) -> list[tuple[float, float]]:
    found = re.search(r'<polyline points="([^"]+)"', chart)
    assert found
    return [(float(x), float(y)) for x, y in (point.split(",") for point in found[1].split())]


def test_a_power_law_is_a_straight_line_on_logarithmic_axes() -> None:
    tokens = (1e4, 3e4, 1e5, 7e5, 1e6)
    chart = log_chart("loss", "tokens", "nats", [Series("law", tokens, tuple(x**-0.3 for x in tokens))])
    places = drawn(chart)
    (x0, y0), (x1, y1) = places[0], places[-1]
    for x, y in places:
        # Pixels are written with one digit.
        assert y - y0 == pytest.approx((y1 - y0) * (x - x0) / (x1 - x0), abs=0.2)


def test_ticks_are_round_numbers_inside_the_range() -> None:
    chart = log_chart("loss", "tokens", "nats", [Series("a", (3e4, 3e5), (0.9, 30.0))])
    for shown in ("50,000", "100,000", "200,000", ">1<", ">20<"):
        assert shown in chart
    assert "500,000" not in chart and ">50<" not in chart
