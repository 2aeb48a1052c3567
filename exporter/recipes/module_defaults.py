"""The recipes that a non-decoder model is compiled with where nobody names one, in the order in which they are tried.

Networks for sound, faces and pictures have few weights and little room for rounding: a face detector of 1.5 MB is off
by half in 4 bits. So an accelerator, which computes in float16, gets float16, and a CPU 8 bits; where these miss the
budget, the next recipe is taken, and the ladder says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgec.devices.targets import Target
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe, for_backend

_ON_CPUS = ("8bit", "float")
_FLOAT16 = ("float",)
_ORDERS: Mapping[str, tuple[str, ...]] = {
    "xnnpack": _ON_CPUS,
    "onnx": _ON_CPUS,
    # Its values are fixed points of 16 bits, its weights integers.
    "qnn": ("8bit",),
}
# Of the largest output: 8 bits cost 0.2 to 3 % on trained networks, and what costs more has a better form.
DEFAULT_LIMIT = 0.1
# Of a probability, from 0 to 1. On inputs that the export never saw the worst is up to twice that of made ones (silero
# 0.014 and 0.025), and 2 points are what a user notices at a threshold.
DEFAULT_PROBABILITY = 0.01


def module_default(target: Target) -> str:
    """The name of the recipe that is tried first."""
    return _order(target)[0]


def further_defaults(target: Target) -> tuple[Recipe, ...]:
    """The recipes with more bits that follow it, resolved for the target's backend."""
    return tuple(for_backend(load_recipe(name), target.backend) for name in _order(target)[1:])


def with_default_limit(recipe: Recipe, further: tuple[Recipe, ...]) -> Recipe:
    """The recipe, held to a narrower limit where another one with more bits follows it."""
    if not further or "max_relative" in recipe.budgets:
        return recipe
    limits = {"probability": DEFAULT_PROBABILITY, **recipe.budgets, "max_relative": DEFAULT_LIMIT}
    return replace(recipe, budgets=limits)


def _order(target: Target) -> tuple[str, ...]:
    return _ORDERS.get(target.backend, _FLOAT16)
