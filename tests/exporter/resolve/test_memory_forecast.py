"""The forecast of an export's memory covers what exports with random weights were measured to take."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
import torch

from benchmarks.forecasts import export_peak_forecast
from edgec.bundle.gguf_header import GgufTensor
from edgec.exporter.dimensions.parameters import decoder_shape
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.resolve.memory_forecast import forecast_peak_bytes
from edgec.exporter.sources.gguf.weights import GgufParameter, GgufWeights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.exporter.sources.weights.streamed import RandomWeights

ARCHITECTURES = Path("benchmarks/architectures")
# Peaks of resident memory, measured on 2026-11-27 by `python -m benchmarks.scale`.
MEASURED = [
    ("smollm2-135m", "4bit", 1.33e9),
    ("qwen3-0.6b", "4bit", 2.82e9),
    ("qwen3-1.7b", "4bit", 5.25e9),
    ("qwen3-1.7b", "balanced2", 5.59e9),
    ("qwen3-4b", "balanced2", 10.97e9),
]


@pytest.mark.sweep(2)
@pytest.mark.long
@pytest.mark.parametrize(("name", "recipe", "peak"), MEASURED)
def test_an_export_takes_no_more_memory_than_was_forecast(name: str, recipe: str, peak: float) -> None:
    forecast = export_peak_forecast(ARCHITECTURES / f"{name}.json", recipe)
    assert peak <= forecast <= 1.5 * peak


def _stored(config: str, layers: int, kind: str = "Q4_0") -> tuple[ModelSource, int]:
    """An architecture as a GGUF file in Q4_0 or F16 would hold it, and the bytes of its tensors; nothing is read."""
    told = json.loads((ARCHITECTURES / f"{config}.json").read_text()) | {"num_hidden_layers": layers}
    parameters = {}
    for parameter in decoder_shape(told).parameters:
        shape = tuple(parameter.shape)
        block = {"Q4_0": 18, "F16": 64}[kind]
        stored, size = (kind, block * prod(shape) // 32) if len(shape) == 2 else ("F32", 4 * prod(shape))
        tensor = GgufTensor(parameter.name, stored, shape, Path("nowhere.gguf"), 0, size)
        parameters[parameter.name] = GgufParameter((tensor,), shape)
    size = sum(part.nbytes for each in parameters.values() for part in each.parts)
    weights = BoundWeights(GgufWeights((), parameters), {name: name for name in parameters})
    return ModelSource("m", "decoder", "m", weights=weights), size


def test_stored_integers_that_are_kept_are_read_row_by_row() -> None:
    kept = replace(for_backend(load_recipe("4bit"), "xnnpack"), keep_stored=True)
    source, _ = _stored("qwen3-4b", 2)
    # Measured on 2026-11-29 by `python -m benchmarks.export_cost qwen3-4b --layers 2 --gguf Q4_0`.
    peak = 1.443e9
    assert peak <= forecast_peak_bytes(source, kept) <= 1.5 * peak


@pytest.mark.long
def test_a_4b_checkpoint_takes_at_most_half_more_than_its_file_and_the_tools() -> None:
    kept = replace(for_backend(load_recipe("4bit"), "xnnpack"), keep_stored=True)
    source, size = _stored("qwen3-4b", 36)
    assert 2.2e9 < size < 2.3e9 and forecast_peak_bytes(source, kept) <= 1.5 * size + 1.5e9


@pytest.mark.long
def test_what_is_rounded_again_or_left_in_float_takes_memory() -> None:
    source, _ = _stored("qwen3-4b", 36)
    recipe, floats = (for_backend(load_recipe(name), "xnnpack") for name in ("4bit", "float"))
    kept = forecast_peak_bytes(source, replace(recipe, keep_stored=True))
    assert forecast_peak_bytes(source, recipe) > kept + 4e9, "an int8 for each value"
    assert forecast_peak_bytes(source, floats) > kept + 12e9, "a float32 for each value"
    mapped, _ = _stored("qwen3-4b", 36, "F16")
    in_memory = forecast_peak_bytes(source, floats) - forecast_peak_bytes(mapped, floats)
    assert in_memory > 4e9, "floats of a file are mapped"


def test_a_model_that_writes_its_calibration_text_is_in_float32_meanwhile() -> None:
    weights = RandomWeights({f"w{number}": (1000, 1000) for number in range(100)}, dtype=torch.bfloat16)
    source = ModelSource("m", "decoder", "m", weights=weights)
    silent, writing = (for_backend(load_recipe(name), "xnnpack") for name in ("8bit", "4bit-gptq"))
    base = forecast_peak_bytes(source, silent)
    assert forecast_peak_bytes(source, writing) == 900_000_000 + 400_000_000 > base
    assert forecast_peak_bytes(replace(source, trained=False), writing) < 1_300_000_000
    assert forecast_peak_bytes(replace(source, kind="module"), writing) < 1_300_000_000
