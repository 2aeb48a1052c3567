"""The memory an export will take, checked before it starts."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

import psutil

from edgec.errors import InputError
from edgec.exporter.recipes.calibrated import reads_text
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.gguf.weights import GgufWeights
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.packed.weights import PackedWeights
from edgec.exporter.sources.stored_parameters import row_tensors
from edgec.exporter.sources.weights.conversion import ConvertedWeights
from edgec.exporter.sources.weights.names import BoundWeights
from edgec.exporter.sources.weights.streamed import RandomWeights, Weights

# Python with torch, transformers and ExecuTorch's exporter loaded: measured 0.9 GB.
_TOOLS_BYTES = 900_000_000
# Packed weights live as bytes in the delegate, in the program and in the file being written. On CPUs large matrices lie
# in files until they are written (backends/cpu/regions/shelf.py).
_ARTIFACT_COPIES, _SHELVING = 3, ("", "xnnpack")
# Bytes a value: working copies of the largest matrix while it is rounded, in float32; the same while stored integers
# are packed; and an integer that a graph holds, with its share of a scale.
_ROUNDING_BYTES, _KEEPING_BYTES, _ROUNDED_BYTES = 3 * 4, 2, 1.2
# The ladder keeps each linear layer's products for as many tokens, in float32, for its next run.
_PRODUCT_BYTES = 256 * 4
MOST_WRITING_BYTES = 2_500_000_000
"""Float32 weights of the largest model that writes its own calibration text: each step reads all of them, and casting
16 bits in each would take longer than the rest, so that they are in float32 while it writes."""


def forecast_peak_bytes(source: ModelSource, recipe: Recipe) -> int:
    """Peak resident bytes of an export (estimated): while it packs, its ladder runs, or the model writes text.

    Weights of files are mapped, and the system can take their pages back; random ones are in memory as they would be
    stored. Of matrices of quantised checkpoints rows are made when they are read, but for those of experts, and where a
    recipe leaves them in float: these are in float32. Measured with random weights in 4 bits: at most this, of
    SmolLM2-135M to Qwen3-4B (2026-11-27); of a GGUF file with two layers of Qwen3-4B 1.44 GB (2026-11-29).
    """
    rows = _read_by_rows(source)
    packing = _packing_bytes(source, recipe, rows)
    return _TOOLS_BYTES + max(packing, _ladder_bytes(source, rows), _writing_bytes(source, recipe))


def _read_by_rows(source: ModelSource) -> set[str]:
    """The matrices whose rows are made when they are read, in a stage that knows how (``stream_weights``)."""
    return set(row_tensors(source.weights)) if source.kind == "decoder" and source.weights is not None else set()


def _largest(source: ModelSource, without: Collection[str] = ()) -> int:
    if source.weights is None:
        return max(source.weight_sizes, default=0)
    entries = source.weights.names().items()
    return max((prod(entry.shape) for name, entry in entries if name not in without), default=0)


def _packing_bytes(source: ModelSource, recipe: Recipe, rows: Collection[str]) -> int:
    """Integers and floats that the graph holds, working copies of the largest matrix, and copies of the artifact."""
    artifact = expected_artifact_bytes(source, recipe)
    kept = rows if recipe.keep_stored else ()
    working = max(_ROUNDING_BYTES * _largest(source, kept), _KEEPING_BYTES * _largest(source))
    if recipe.backend not in _SHELVING:
        return _ARTIFACT_COPIES * artifact + working
    # What is executed afterwards is mapped; its pages count.
    return max(artifact, working + _graph_bytes(source, recipe, kept))


def _graph_bytes(source: ModelSource, recipe: Recipe, kept: Collection[str]) -> int:
    """Rounded matrices as bytes with their scales, or in float32 where none are rounded."""
    entries = {} if source.weights is None else source.weights.names()
    others = [entry for name, entry in entries.items() if name not in kept]
    if recipe.weights is not None:
        return int(_ROUNDED_BYTES * sum(prod(entry.shape) for entry in others))
    return sum(4 * prod(entry.shape) for entry in others if entry.file is None)


def _ladder_bytes(source: ModelSource, rows: Collection[str]) -> int:
    """Weights that are in memory, products of linear layers, and half of the largest other matrix in float32."""
    entries = {} if source.weights is None else source.weights.names()
    held = [entry for name, entry in entries.items() if entry.file is None and name not in rows]
    made = sum(entry.nbytes for entry in held) if _makes_values(source.weights) else 0
    products = _PRODUCT_BYTES * sum(entry.shape[0] for entry in entries.values() if len(entry.shape) == 2)
    return made + products + 2 * _largest(source, rows)


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
