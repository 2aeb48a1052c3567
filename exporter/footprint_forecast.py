"""The memory an export will take, said before it starts."""

from __future__ import annotations

import psutil
import torch

from edgec.errors import InputError
from edgec.exporter.recipes import Recipe
from edgec.exporter.sources import ModelSource

# Python with torch, transformers and ExecuTorch's exporter loaded: measured 0.9 GB.
_TOOLS_BYTES = 900_000_000
# Packed weights live as bytes in the delegate, in the program and in the file being written.
_ARTIFACT_COPIES = 3


def forecast_peak_bytes(source: ModelSource, recipe: Recipe) -> int:
    """Peak resident bytes of an export (estimated); the float model is mapped, not loaded."""
    if source.weights is None:
        return _TOOLS_BYTES
    shapes = [torch.Size(entry.shape) for entry in source.weights.names().values()]
    largest = max((shape.numel() for shape in shapes), default=0)
    artifact = sum(shape.numel() for shape in shapes) * recipe.weight_bits / 8
    return int(_TOOLS_BYTES + _ARTIFACT_COPIES * artifact + 3 * 4 * largest)


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
