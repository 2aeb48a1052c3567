"""The forecast of an export's memory covers what exports with random weights were measured to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.forecasts import export_peak_forecast

ARCHITECTURES = Path("benchmarks/architectures")
# Peaks of resident memory, measured on 2026-11-27 by `python -m benchmarks.scale`.
MEASURED = [
    ("smollm2-135m", "4bit", 1.33e9),
    ("qwen3-0.6b", "4bit", 2.82e9),
    ("qwen3-1.7b", "4bit", 5.25e9),
    ("qwen3-1.7b", "balanced2", 5.59e9),
    ("qwen3-4b", "balanced2", 10.97e9),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "recipe", "peak"), MEASURED)
def test_an_export_takes_no_more_memory_than_was_forecast(name: str, recipe: str, peak: float) -> None:
    forecast = export_peak_forecast(ARCHITECTURES / f"{name}.json", recipe)
    assert peak <= forecast <= 1.5 * peak
