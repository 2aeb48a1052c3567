"""Which recipes use text: their algorithms weigh errors by what layers read, or fit layers to what they compute."""

from __future__ import annotations

from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import support_of

_FITTED, _WEIGHTED = frozenset(("gptq", "gptq-or-mse")), "importance"
_MIGRATED = frozenset(("awq", "smooth"))


def is_layerwise(recipe: Recipe) -> bool:
    """Whether a recipe fits one layer after another to what the model computes on text."""
    return recipe.algorithm in _FITTED or not _MIGRATED.isdisjoint(recipe.prepare)


def reads_text(recipe: Recipe) -> bool:
    """Whether an export makes text for a recipe where it is given none.

    Args:
        recipe: resolved for its backend: the same weights are look-up tables, which are weighted, or integers.
    """
    schemes = [scheme for scheme in (recipe.weights, recipe.lm_head, *(s for _, s in recipe.rules)) if scheme]
    support = support_of(recipe.backend, recipe.kernels)
    tables = bool(support and support.table_bits) and any(scheme.is_table for scheme in schemes)
    return is_layerwise(recipe) or tables or (bool(schemes) and recipe.algorithm == _WEIGHTED)
