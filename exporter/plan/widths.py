"""A recipe's bits as the forecast counts them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgec.exporter.plan.footprint import Widths
from edgec.exporter.recipe_support import SUPPORT, Support
from edgec.exporter.recipes import Recipe, check_recipe, for_backend, load_recipe
from edgec.passes.weight_scheme import CONTAINER, WeightScheme

_KV_BITS = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}


def recipe_widths(recipe: Recipe) -> Widths:
    """The widths a recipe asks for where no rule says otherwise; float is what its backend computes in.

    Args:
        recipe: resolved for its backend (``for_backend``).
    """
    support = SUPPORT.get(recipe.backend)
    held = _container(recipe.weights, support)
    return Widths(
        weight_bits=_bits(held, support),
        group_size=held.group_size if held else 0,
        embedding_bits=_bits(recipe.embedding, support),
        lm_head_bits=_bits(_container(recipe.lm_head, support), support),
        kv_bits=_KV_BITS[recipe.kv_dtype],
        kv_boundary=recipe.boundary if recipe.shared_kv == "reuse" else None,
        tables=held if held and held.is_table else None,
    )


def _container(scheme: WeightScheme | None, support: Support | None) -> WeightScheme | None:
    """What holds a scheme: integers, where a backend has no tables for the balanced set."""
    return CONTAINER if scheme and scheme.is_table and support and not support.table_bits else scheme


def named_widths(name: str, backend: str) -> Widths:
    """The widths of a named recipe or a file as a backend expresses it.

    Raises:
        InputError: E175 or E171, there is no such recipe; E172, the backend does not execute it.
    """
    recipe = load_recipe(name)
    check_recipe(recipe, backend)
    return recipe_widths(for_backend(recipe, backend))


def overridden(widths: Widths, **given: int | None) -> Widths:
    """Widths with those that the command line states put over them."""
    stated: dict[str, Any] = {name: bits for name, bits in given.items() if bits is not None}
    return replace(widths, **stated)


def _bits(scheme: WeightScheme | None, support: Support | None) -> int:
    """Bits of a weight; those of the backend's own float where it has no scheme."""
    if scheme is not None:
        return scheme.bits
    return _KV_BITS[support.cache[0]] if support else 32
