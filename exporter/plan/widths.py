"""A recipe's bits as the forecast counts them."""

from __future__ import annotations

from dataclasses import replace

from edgec.exporter.plan.footprint import Widths
from edgec.exporter.recipes import Recipe
from edgec.passes.weight_scheme import WeightScheme

_KV_BITS = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}


def recipe_widths(recipe: Recipe) -> Widths:
    """The widths a recipe asks for where no rule says otherwise; None in a recipe is float32."""
    return Widths(
        weight_bits=_bits(recipe.weights),
        group_size=recipe.weights.group_size if recipe.weights else 0,
        embedding_bits=_bits(recipe.embedding),
        lm_head_bits=_bits(recipe.lm_head),
        kv_bits=_KV_BITS[recipe.kv_dtype],
    )


def overridden(widths: Widths, **given: int | None) -> Widths:
    """Widths with those that the command line states put over them."""
    stated = {name: bits for name, bits in given.items() if bits is not None}
    return replace(widths, **stated)


def _bits(scheme: WeightScheme | None) -> int:
    return scheme.bits if scheme else 32
