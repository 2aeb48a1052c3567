"""The forecast of an export's memory covers what exports with random weights were measured to take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.forecasts import export_peak_forecast
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.resolve.memory_forecast import forecast_peak_bytes
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights import RandomWeights

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


def test_a_model_that_writes_its_calibration_text_is_in_float32_meanwhile() -> None:
    weights = RandomWeights({f"w{number}": (1000, 1000) for number in range(100)}, dtype=torch.bfloat16)
    source = ModelSource("m", "decoder", "m", weights=weights)
    silent, writing = (for_backend(load_recipe(name), "xnnpack") for name in ("8bit", "4bit-gptq"))
    base = forecast_peak_bytes(source, silent)
    assert forecast_peak_bytes(source, writing) == 900_000_000 + 400_000_000 > base
    assert forecast_peak_bytes(replace(source, trained=False), writing) < 1_300_000_000
    assert forecast_peak_bytes(replace(source, kind="module"), writing) < 1_300_000_000
