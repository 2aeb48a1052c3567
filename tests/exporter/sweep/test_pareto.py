"""The sweep's picture: what beats what is said within one model and one place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from edgec.exporter.sweep.pareto import save_pareto
from edgec.exporter.sweep.table import Row


def row(model: str, recipe: str, size: int, kl: float, speed: float, **more: Any) -> Row:
    fields: dict[str, Any] = {"target": "host", "device": "host", "status": "measured", "ttft_ms": 1000 / speed}
    fields |= {"error_code": None, "error": None, "bundle": None, "top1_agreement": 0.9}
    fields |= {"artifact_bytes": size, "kl_mean_nats": kl, "decode_tokens_per_s": speed}
    return Row(model=model, recipe=recipe, **{**fields, **more})


SMALL = [
    row("a/small", name, *figures)
    for name, figures in {"4bit": (10**6, 0.02, 90), "8bit": (2 * 10**6, 0.004, 60)}.items()
]
LARGE = [
    row("b/large", name, *figures)
    for name, figures in {"4bit": (10**7, 0.03, 20), "8bit": (2 * 10**7, 0.005, 12)}.items()
]


def charts(rows: list[Row], folder: Path) -> list[str]:
    """The three charts: size, TTFT, speed."""
    text = save_pareto(rows, folder / "pareto.svg").read_text()
    groups = re.findall(r'<g transform="translate.*?</g>', text)
    assert len(groups) == 3
    return groups


def lines(chart: str) -> dict[str, int]:
    """Colour of each dashed line -> points on it."""
    drawn = re.findall(r'<polyline points="([^"]*)" fill="none" stroke="([^"]*)" stroke-dasharray', chart)
    return {colour: len(points.split()) for points, colour in drawn}


def legend(chart: str) -> dict[str, str]:
    """Name -> colour."""
    entries = re.findall(r'h16" stroke="([^"]*)"/><text[^>]*>([^<]*)<', chart)
    return {name: colour for colour, name in entries}


def test_each_model_has_a_line_of_its_own(tmp_path: Path) -> None:
    for chart in charts([*SMALL, *LARGE], tmp_path):
        named = legend(chart)
        assert set(named) == {"small, host", "large, host"}
        # The small model beats both rows of the large one, which no app that needs the large one cares about.
        assert lines(chart) == {named["small, host"]: 2, named["large, host"]: 2}
        assert len(set(re.findall(r'<circle[^>]*fill="([^"]*)"', chart))) == 2


def test_devices_and_targets_are_told_apart_where_they_matter(tmp_path: Path) -> None:
    phone = [
        row("a/small", "4bit", 10**6, 0.02, 30, device="adb:1"),
        row("a/small", "8bit", 2 * 10**6, 0.004, 40, device="adb:1"),
    ]
    other = [row("a/small", "4bit", 1_100_000, 0.02, 80, target="android-cpu")]
    size, ttft, speed = charts([*SMALL, *phone, *other], tmp_path)
    assert set(legend(size)) == {"small, host", "small, android-cpu"}
    assert set(legend(ttft)) == set(legend(speed)) == {"small, host", "small, adb:1"}
    # On the phone 8 bits are faster and nearer: 4 bits are beaten there, and on this machine they are not.
    assert lines(speed) == {legend(speed)["small, adb:1"]: 1, legend(speed)["small, host"]: 2}
    assert ">4bit android-cpu<" in speed and ">4bit<" in size and size.count("<circle") == 3


def test_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    other = [row("b/small", "4bit", 3 * 10**6, 0.01, 10)]
    assert set(legend(charts([*SMALL, *other], tmp_path)[0])) == {"a/small, host", "b/small, host"}


def test_many_groups_have_a_colour_each(tmp_path: Path) -> None:
    rows = [row(f"m{place}", "4bit", 10**6 + place, 0.01, 10) for place in range(12)]
    assert len(set(legend(charts(rows, tmp_path)[0]).values())) == 12


def test_rows_without_figures_are_left_out(tmp_path: Path) -> None:
    failed = row("a/small", "2bit", 0, 0.0, 1, artifact_bytes=None, ttft_ms=None, decode_tokens_per_s=None)
    assert [chart.count("<circle") for chart in charts([*SMALL, failed], tmp_path)] == [2, 2, 2]
    assert [chart.count("<circle") for chart in charts([failed], tmp_path)] == [0, 0, 0]
