"""The widths that a backend stores, as candidates for each layer."""

from __future__ import annotations

from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import SUPPORT
from edgec.ir.weight_scheme import WeightScheme, fit, fit_tables, lut

_ROWS = 8
"""Output channels per table where the recipe has none."""


def candidate_schemes(recipe: Recipe) -> tuple[WeightScheme, ...]:
    """What the recipe's backend may store a linear layer as: tables of 2 bits and more, and integers."""
    support = SUPPORT[recipe.backend]
    rows = recipe.weights.group_rows if recipe.weights and recipe.weights.group_rows else _ROWS
    found = [lut(bits, rows) for bits in support.table_bits if bits > 1]
    blocks = support.block_scales or recipe.allow_block_scales
    for grid in support.kernels:
        groups = (*(grid.groups if blocks else ()), *([0] if grid.channel_multiple else []))
        found += [_integers(grid.bits, group, support.dynamic_activations) for group in groups]
    return tuple(found)


def _integers(bits: int, group: int, dynamic: bool) -> WeightScheme:
    return WeightScheme(bits, group, activation_bits=8 if dynamic else 0, scale_bits=16 if group else 32)


def schemes_for_layer(shape: tuple[int, int], wanted: tuple[WeightScheme, ...], recipe: Recipe) -> list[WeightScheme]:
    """The candidates as they are stored for a matrix [N, K]; what does not fit its shape is left out."""
    kernels = SUPPORT[recipe.backend].kernels
    found: dict[WeightScheme, None] = {}
    for scheme in wanted:
        used = fit_tables(scheme, shape[0])[0] if scheme.is_table else fit(scheme, shape[1], kernels)[0]
        if used is not None and used.bits == scheme.bits:
            found[used] = None
    return list(found)
