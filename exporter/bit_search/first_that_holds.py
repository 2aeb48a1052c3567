"""Compile a non-decoder model with the first of its default recipes whose budget holds.

A default never ends at a refusal of a healthy model: it spends bytes, and says which recipe missed what. Convolutions
that cost most in 8 bits go back to float before everything does (float_convolutions.py). A recipe that a user names
stands as it is, and is refused where it does not hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgec.bundle.tried_recipe import TriedRecipe
from edgec.errors import BudgetError

if TYPE_CHECKING:
    from edgec.exporter.pipeline import CompiledModel
    from edgec.exporter.progress import Progress
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.stage_cache import StageCache

# What the ladder refuses: a difference that is too large, a lost channel, other integers.
_JUDGED = ("E201", "E202", "E203")


def compile_first_that_holds(
    request: ExportRequest, cache: StageCache, progress: Progress
) -> tuple[ExportRequest, CompiledModel]:
    """Compile a model, with the next of ``request.further_recipes`` where the ladder refuses one.

    Returns:
        The request that was compiled, which says what was tried before, and the result.

    Raises:
        BudgetError: the last recipe misses its budget, too; or what no recipe changes.
    """
    from edgec.exporter.bit_search.float_convolutions import finer_recipes
    from edgec.exporter.pipeline import compile_model
    from edgec.exporter.recipes.advice import naming_recipes

    while request.further_recipes:
        try:
            return request, compile_model(request, cache, progress)
        except BudgetError as missed:
            if missed.code not in _JUDGED:
                raise
            tried = TriedRecipe(recipe=request.recipe.name, missed=missed.why)
            finer = () if request.tried else finer_recipes(request, progress)
            following, *others = (*finer, *request.further_recipes)
            progress.note(f"{tried.line}: trying {following.name}")
            tries = (*request.tried, tried)
            request = replace(request, recipe=following, further_recipes=tuple(others), tried=tries)
    with naming_recipes(request.recipe, request.target, module=request.source.kind == "module"):
        return request, compile_model(request, cache, progress)
