"""What edgec forecasts of an export and of its artifact before either exists; all of it is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgec.devices.prediction.footprint import Footprint

_PLANNED_TARGET = "oneplus-12-cpu"
"""Its kernels and formats are this machine's; a forecast of memory depends on nothing else of a phone."""


def export_peak_forecast(config: Path, recipe: str) -> int:
    """Peak resident bytes of an export with random weights, as ``edgec export`` forecasts them before it begins."""
    from edgec.exporter.recipes.file import load_recipe
    from edgec.exporter.resolve.memory_forecast import forecast_peak_bytes
    from edgec.exporter.sources.resolve import resolve

    return forecast_peak_bytes(resolve(str(config), random_weights=True), load_recipe(recipe))


def planned_footprint(config: Mapping[str, Any], recipe: str, context: int | None) -> Footprint:
    """The bytes of artifact, cache and peak that ``edgec plan`` forecasts for a CPU; context None: the model's own."""
    from edgec.devices.prediction.forecast import plan
    from edgec.devices.targets import load_target
    from edgec.exporter.dimensions.shapes import model_shape
    from edgec.exporter.resolve.widths import named_widths

    target = load_target(_PLANNED_TARGET)
    return plan(model_shape(config), target, named_widths(recipe, target.backend), context=context).footprint
