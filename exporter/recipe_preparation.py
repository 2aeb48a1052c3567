"""Exact rewrites of weights that a recipe asks for before anything is rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.errors import InputError
from edgec.exporter.recipes import Recipe
from edgec.passes.weight_scheme import WeightScheme

if TYPE_CHECKING:
    from edgec.passes.calibration import Calibration
    from edgec.passes.contract import Pass


def preparing_passes(recipe: Recipe, calibration: Calibration | None = None) -> list[Pass]:
    """The exact rewrites of weights that a recipe asks for before anything is rounded, in order.

    Args:
        recipe: resolved for its backend (``for_backend``).
        calibration: text; ``awq`` and ``smooth`` need it.
    """
    from edgec.passes.calibration import Calibration
    from edgec.passes.migrate_scales import MigrateScales
    from edgec.passes.rotate import Rotate

    weights = recipe.weights or WeightScheme()
    scheme = WeightScheme(max(2, min(8, 1 << (weights.bits - 1).bit_length())), weights.group_size)
    known = calibration or Calibration()
    return [Rotate() if name == "rotate" else MigrateScales(name, scheme, known) for name in recipe.prepare]


def check_preparation(recipe: Recipe, kind: str) -> None:
    """Refuse rewrites that only decoders have.

    Raises:
        InputError: E523.
    """
    if recipe.prepare and kind != "decoder":
        raise InputError(
            what=f"{', '.join(recipe.prepare)}: the weights of this model cannot be prepared",
            where=f"recipe {recipe.name}, prepare",
            why="these rewrites know decoders only",
            fix="leave prepare out of the recipe",
            code="E523",
        )
