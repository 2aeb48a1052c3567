"""Charts: what is drawn where."""

from __future__ import annotations

import re

import pytest

from edgec.svg import Points, Series, labelled_chart, line_chart, log_chart, point_chart


def drawn(chart: str) -> list[tuple[float, float]]:
    match = re.search(r'<polyline points="([^"]+)"', chart)
    assert match
    return [(float(x), float(y)) for x, y in (point.split(",") for point in match[1].split())]


def test_a_power_law_is_a_straight_line_on_logarithmic_axes() -> None:
    tokens = (1e4, 3e4, 1e5, 7e5, 1e6)
    chart = log_chart("loss", "tokens", "nats", [Series("law", tokens, tuple(x**-0.3 for x in tokens))])
    places = drawn(chart)
    (x0, y0), (x1, y1) = places[0], places[-1]
    for x, y in places:
        # Pixels are written with one digit.
        assert y - y0 == pytest.approx((y1 - y0) * (x - x0) / (x1 - x0), abs=0.2)


def test_lines_that_end_together_have_names_apart_in_the_order_of_their_ends() -> None:
    lines = [Series(name, (1.0, 512.0), (10.0, end)) for name, end in (("low", 99.0), ("high", 101.0), ("mid", 100.0))]
    chart = labelled_chart("speed", "tokens", "tokens/s", lines, (1, 512))
    heights = {name: float(y) for y, name in re.findall(r'y="([\d.]+)"[^>]* fill="[^"]+">(\w+)<', chart)}
    assert heights["high"] + 13 <= heights["mid"] <= heights["low"] - 13


def test_ticks_are_round_numbers_inside_the_range() -> None:
    chart = log_chart("loss", "tokens", "nats", [Series("a", (3e4, 3e5), (0.9, 30.0))])
    for shown in ("50,000", "100,000", "200,000", ">1<", ">20<"):
        assert shown in chart
    assert "500,000" not in chart and ">50<" not in chart


def test_a_single_measurement_is_seen() -> None:
    chart = line_chart(
        "loss", "tokens", "nats", [Series("many", (0.0, 9.0), (1.0, 2.0)), Series("one", (9.0,), (1.5,))]
    )
    assert len(re.findall(r'stroke-width="6" stroke-linecap="round"', chart)) == 1


def test_an_axis_need_not_begin_at_zero() -> None:
    falling = Series("a", (0.0, 9.0), (3.6, 3.5))
    fall = {}
    for from_zero in (True, False):
        (_, y0), (_, y1) = drawn(line_chart("loss", "tokens", "nats", [falling], from_zero=from_zero))
        fall[from_zero] = y1 - y0
    assert fall[True] < 10 and fall[False] > 190
    assert ">0<" in line_chart("loss", "tokens", "nats", [falling])


def test_labels_hide_nothing_and_every_point_tells_its_own() -> None:
    near = tuple((1.0 + place / 1000, 1.0) for place in range(8))
    group = Points("a", (*near, (50.0, 0.1)), tuple(f"recipe{place}" for place in range(9)), ())
    chart = point_chart("quality", "MB", "nats", [group])
    assert all(f"<title>a: recipe{place}</title>" in chart for place in range(9))
    shown = re.findall(r">(recipe\d)</text>", chart)
    assert "recipe8" in shown and 1 < len(shown) < 9


def test_one_group_needs_no_legend_and_a_narrow_axis_has_round_ticks() -> None:
    one = Points("only", ((1.9, 9.77), (21.1, 9.81), (3.3, 10.6)), ("a", "b", "c"), ())
    chart = point_chart("q", "MB", "perplexity", [one])
    assert ">only</text>" not in chart and {">9.5<", ">10<", ">10.5<", ">11<"} <= set(re.findall(r">[\d.]+<", chart))
    both = point_chart("q", "MB", "perplexity", [one, Points("other", ((5.0, 9.9),), ("d",), ())])
    assert ">only</text>" in both and ">other</text>" in both


def test_a_narrow_logarithmic_range_has_ticks_all_the_same() -> None:
    chart = point_chart("q", "MB", "nats", [Points("a", ((3.1, 0.31), (3.2, 0.32)), ("x", "y"), ())])
    assert len(re.findall(r'<text[^>]*text-anchor="end"', chart)) >= 3
