"""The passes that a recipe asks for: exact rewrites of weights first, then those that round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import support_of
from edgec.ir.kernel_grids import DYNAMIC_INT8_KERNELS
from edgec.ir.weight_scheme import WeightScheme

if TYPE_CHECKING:
    from edgec.passes.contract import Pass
    from edgec.passes.graph.calibration import Calibration


def preparing_passes(recipe: Recipe, calibration: Calibration | None = None) -> list[Pass]:
    """The exact rewrites of weights that a recipe asks for before anything is rounded, in order.

    Args:
        recipe: resolved for its backend (``for_backend``).
        calibration: text; ``awq`` and ``smooth`` need it.
    """
    from edgec.passes.equalise.rotate import Rotate
    from edgec.passes.equalise.scale_migration import ScaleMigration
    from edgec.passes.graph.calibration import Calibration

    weights = recipe.weights or WeightScheme()
    scheme = WeightScheme(max(2, min(8, 1 << (weights.bits - 1).bit_length())), weights.group_size)
    known = calibration or Calibration()
    return [Rotate() if name == "rotate" else ScaleMigration(name, scheme, known) for name in recipe.prepare]


def check_preparation(recipe: Recipe, kind: str) -> None:
    """Refuse, for non-decoder models, rewrites of weights that only decoders support.

    Raises:
        InputError: E523.
    """
    if recipe.prepare and kind != "decoder":
        raise InputError(
            what=f"{', '.join(recipe.prepare)}: the weights of this model cannot be prepared",
            where=f"recipe {recipe.name}, prepare",
            why="these rewrites support decoders only",
            fix="leave prepare out of the recipe",
            code="E523",
        )


def passes_for(recipe: Recipe, calibration: Calibration | None = None) -> list[Pass]:
    """The compressing passes that a recipe asks for, in order; none for a float recipe.

    Args:
        recipe: resolved for its backend (``for_backend``).
        calibration: text or examples: errors are then weighted by the size of activations; ``gptq`` needs it, and
            ``gptq-or-mse`` is ``gptq`` with it.
    """
    from edgec.passes.compress.half_stored import HalfStored
    from edgec.passes.compress.palettize import Palettize
    from edgec.passes.compress.quantize import Quantize
    from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
    from edgec.passes.compress.rounding.weight_grid import GPTQ, GPTQ_OR_MSE, with_inputs, without_inputs
    from edgec.passes.graph.calibration import Calibration

    rules, weights, lm_head, embedding = recipe.rules, recipe.weights, recipe.lm_head, recipe.embedding
    asked = (weights, lm_head, embedding, *(scheme for _, scheme in rules))
    wanted: list[Pass] = []
    algorithm = recipe.algorithm
    if algorithm == GPTQ_OR_MSE:
        algorithm = with_inputs(algorithm) if calibration else without_inputs(algorithm)
    support, keeps = support_of(recipe.backend, recipe.kernels), recipe.keep_stored
    stored = support.stored if support and keeps else ()
    if any(scheme and _is_tabulated(scheme, recipe) for scheme in asked):
        known = calibration or Calibration()
        wanted.append(Palettize(rules, weights, lm_head, embedding, known, algorithm == GPTQ, stored))
    if keeps or any(_integers(scheme, recipe) for scheme in (weights, lm_head, *(s for _, s in rules))):
        kernels = (*(support.kernels if support else DYNAMIC_INT8_KERNELS), *stored)
        own = tuple((pattern, _integers(scheme, recipe)) for pattern, scheme in rules)
        defaults = (_integers(weights, recipe), _integers(lm_head, recipe))
        wanted.append(Quantize(own, *defaults, algorithm, kernels, calibration or Calibration(), keeps))
    if embedding and not embedding.is_table:
        read = tuple(grid for grid in support.kernels if not grid.symmetric) if support else ()
        alike = support is not None and support.tables_alike
        read = support.kernels if support and alike else read
        tables = stored if support and support.stored_tables else ()
        grid = (embedding.bits, embedding.group_size, algorithm, embedding.scale_bits, embedding.symmetric)
        wanted.append(QuantizeEmbedding(*grid, (*read, *tables), keeps=keeps, alike=alike))
    if stored and support and support.stored_half:
        wanted.append(HalfStored())
    return wanted


def _is_tabulated(scheme: WeightScheme, recipe: Recipe) -> bool:
    """Whether the backend stores a scheme as a table; backends without tables store the balanced set as integers."""
    support = support_of(recipe.backend, recipe.kernels)
    return scheme.is_table and bool(support and support.table_bits)


def _integers(scheme: WeightScheme | None, recipe: Recipe) -> WeightScheme | None:
    """The scheme if it is stored as integers; None if it is stored as tables."""
    return None if scheme is None or _is_tabulated(scheme, recipe) else scheme


def rounds_weights(recipe: Recipe) -> bool:
    """Whether any compressing pass of a recipe rounds the model."""
    return any(rewrite.effect == "approximate" for rewrite in passes_for(recipe))


def rounds_values(recipe: Recipe) -> bool:
    """Whether an artifact on a CPU rounds weights, activations or keys, so that two executions may rightly differ."""
    return recipe.kv_dtype != "float32" or rounds_weights(recipe)
