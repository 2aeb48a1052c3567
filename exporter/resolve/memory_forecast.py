"""The memory an export will take, checked before it starts."""

from __future__ import annotations

import psutil

from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.model_source import ModelSource

# Python with torch, transformers and ExecuTorch's exporter loaded: measured 0.9 GB.
_TOOLS_BYTES = 900_000_000
# Packed weights live as bytes in the delegate, in the program and in the file being written.
_ARTIFACT_COPIES = 3


def forecast_peak_bytes(source: ModelSource, recipe: Recipe) -> int:
    """Peak resident bytes of an export (estimated); the float model is mapped, not loaded."""
    largest = max(source.weight_sizes, default=0)
    return _TOOLS_BYTES + _ARTIFACT_COPIES * expected_artifact_bytes(source, recipe) + 3 * 4 * largest


def expected_artifact_bytes(source: ModelSource, recipe: Recipe, float_bits: int = 32) -> int:
    """Bytes of the artifact's weights (estimated): every weight at the recipe's bits, floats at ``float_bits``."""
    return int(sum(source.weight_sizes) * min(recipe.weight_bits, float_bits) / 8)


def check_memory(source: ModelSource, recipe: Recipe) -> None:
    """Refuse an export that would be killed halfway.

    Raises:
        InputError: E190.
    """
    needed, free = forecast_peak_bytes(source, recipe), psutil.virtual_memory().available
    if needed > free:
        raise InputError(
            what=f"this export needs about {needed / 1e9:.1f} GB of memory (estimated)",
            where=source.source,
            why=f"{free / 1e9:.1f} GB are free (measured)",
            fix="close other programs, use a recipe with fewer bits, or a machine with more memory",
            code="E190",
        )
