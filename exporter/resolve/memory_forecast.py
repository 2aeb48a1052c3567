"""The memory an export will take, checked before it starts."""

from __future__ import annotations

from math import prod

import psutil

from edgec.errors import InputError
from edgec.exporter.recipes.calibrated import reads_text
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.gguf_weights import GgufWeights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.packed_weights import PackedWeights
from edgec.exporter.sources.weight_conversion import ConvertedWeights
from edgec.exporter.sources.weight_names import BoundWeights
from edgec.exporter.sources.weights import RandomWeights, Weights

# Python with torch, transformers and ExecuTorch's exporter loaded: measured 0.9 GB.
_TOOLS_BYTES = 900_000_000
# Packed weights live as bytes in the delegate, in the program and in the file being written.
_ARTIFACT_COPIES = 3
# The ladder keeps each linear layer's products for as many tokens, in float32, for its next run.
_PRODUCT_BYTES = 256 * 4
MOST_WRITING_BYTES = 2_500_000_000
"""Float32 weights of the largest model that writes its own calibration text: each step reads all of them, and casting
16 bits in each would take longer than the rest, so that they are in float32 while it writes."""


def forecast_peak_bytes(source: ModelSource, recipe: Recipe) -> int:
    """Peak resident bytes of an export (estimated): while it packs, its ladder runs, or the model writes text.

    Weights of files are mapped, and the system can take their pages back; random ones are in memory as they would be
    stored, those of quantised checkpoints in float32. Measured with random weights in 4 bits, 2026-11-27: at most this,
    of SmolLM2-135M to Qwen3-4B.
    """
    packing = _ARTIFACT_COPIES * expected_artifact_bytes(source, recipe) + 3 * 4 * _largest(source)
    return _TOOLS_BYTES + max(packing, _ladder_bytes(source), _writing_bytes(source, recipe))


def _largest(source: ModelSource) -> int:
    return max(source.weight_sizes, default=0)


def _ladder_bytes(source: ModelSource) -> int:
    """Weights that are in memory, products of linear layers, and half of the largest matrix in float32."""
    entries = [] if source.weights is None else list(source.weights.names().values())
    made = sum(entry.nbytes for entry in entries if entry.file is None) if _makes_values(source.weights) else 0
    products = _PRODUCT_BYTES * sum(entry.shape[0] for entry in entries if len(entry.shape) == 2)
    return made + products + 2 * _largest(source)


def _makes_values(weights: Weights | None) -> bool:
    """Whether values are made and then held: random ones, and those of quantised checkpoints; others are mapped."""
    while isinstance(weights, BoundWeights | ConvertedWeights):
        weights = weights.base
    return isinstance(weights, RandomWeights | GgufWeights | PackedWeights)


def _writing_bytes(source: ModelSource, recipe: Recipe) -> int:
    """Weights that are cast to float32 while the model writes calibration text; those stored so stay in their file."""
    writes = source.kind == "decoder" and source.trained and reads_text(recipe)
    if not writes or source.weights is None or 4 * sum(source.weight_sizes) > MOST_WRITING_BYTES:
        return 0
    entries = source.weights.names().values()
    return 4 * sum(prod(entry.shape) for entry in entries if entry.dtype.itemsize != 4)


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
