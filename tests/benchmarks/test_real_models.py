"""The table and the chart of a real model's forms."""

from __future__ import annotations

from benchmarks.real_models import Row, chart, table

ROWS = [
    Row(
        "edgec 4bit",
        93_100_000,
        {"prose": (0.0571, 0.006)},
        {"prose": 0.875},
        {"decode, 1 threads": [50.0, 70.0, 60.0]},
    ),
    Row("llama.cpp Q4_K_M", 104_000_000, {"prose": (0.076, 0.007)}, {"prose": 0.83}, {"decode, 1 threads": [40.0]}),
]


def test_the_table_is_sorted_by_size_and_shows_medians() -> None:
    first, _, larger, smaller = table(ROWS).splitlines()
    assert "KL, prose" in first and larger.startswith("| llama.cpp Q4_K_M | 104.0 |")
    assert smaller == "| edgec 4bit | 93.1 | 0.0571 ± 0.0060 | 87.5% | 60 |"


def test_the_chart_has_a_colour_for_each_tool_that_was_measured() -> None:
    assert "llama.cpp" in chart(ROWS, "prose") and "Q4_K_M" in chart(ROWS, "prose")
    assert "llama.cpp" not in chart(ROWS[:1], "prose")
