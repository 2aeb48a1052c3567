"""Name recipes that lose less quality, in the error of an export that lost too much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgec.devices.targets import Target
from edgec.errors import BudgetError, EdgecError
from edgec.exporter.parity.refusals import MORE_BITS, WRONG
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe, recipe_names
from edgec.exporter.recipes.recipe import Recipe, bits_per_weight, for_backend
from edgec.passes.compress.rounding.weight_grid import GPTQ

# What a module is advised: look-up tables and few bits need weights that a network for sound or faces does not have.
_OF_MODULES = ("8bit", "float")
# Vendors' own tools compute no finer there either: values of 16 bits, integers as weights.
_FIXED = "qnn"
_FLOAT_ALREADY = "a pass or the lowering is at fault, not the model, and nothing was rounded: report it"


@contextmanager
def naming_recipes(recipe: Recipe, target: Target, *, module: bool = False) -> Iterator[None]:
    """Make a refusal by the ladder name what can be done on this target; ``module``: it is not a language model."""
    try:
        yield
    except BudgetError as error:
        if error.fix == WRONG and recipe.weights is None:
            raise BudgetError(error.what, error.where, error.why, _FLOAT_ALREADY, error.code) from error
        if not error.fix.startswith(MORE_BITS):
            raise
        accepted = error.fix.removeprefix(MORE_BITS).removeprefix("; ")
        fix = "; ".join(filter(None, [_fix(recipe, target, module), accepted]))
        raise BudgetError(error.what, error.where, error.why, fix, error.code) from error


def more_bits(recipe: Recipe, target: Target) -> tuple[str, ...]:
    """Named recipes of a target with more bits per weight, fewest first; none of them needs a calibration text."""
    own = bits_per_weight(recipe.weights)
    others = ((name, for_backend(load_recipe(name), target.backend)) for name in recipe_names())
    plain = [(n, other) for n, other in others if other.algorithm != GPTQ and not _is_sparse(other)]
    legal = [(bits_per_weight(other.weights), n) for n, other in plain if _can_run(other, target)]
    return tuple(name for bits, name in sorted(legal) if bits > own)


def _is_sparse(recipe: Recipe) -> bool:
    return recipe.weights is not None and recipe.weights.sparsity > 0


def _can_run(recipe: Recipe, target: Target) -> bool:
    from edgec.backends.qnn.legality import check_chip

    try:
        check_recipe(recipe, target.backend)
        check_chip(target, recipe)
    except EdgecError:
        return False
    return True


def _fix(recipe: Recipe, target: Target, module: bool) -> str:
    names = [name for name in more_bits(recipe, target) if not module or name in _OF_MODULES]
    if "float" in names:
        return f"use --recipe {' or '.join(names)}: float rounds nothing and so passes"
    if names:
        return f"use --recipe {' or '.join(names)}, which has more bits here"
    if module:
        own = (
            "export for a CPU, where layers may stay float (--target android-cpu), or "
            if target.backend == _FIXED
            else ""
        )
        return f"no recipe has more bits on {target.name}: {own}give real inputs, which it is then judged on (--inputs)"
    return f"no recipe has more bits on {target.name}: calibrate on your own text (--calibrate)"
