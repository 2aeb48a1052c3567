"""Compile a non-decoder model with the first of its default recipes whose budget holds.

A default never ends at a refusal of a healthy model: it spends bytes, and says which recipe missed what. Convolutions
that cost most in 8 bits go back to float before everything does (float_convolutions.py). A recipe that a user names
stands as it is, and is refused where it does not hold. Under any recipe, layers that float16 does not hold are kept in
float32 where the target computes in float16 (float_layers.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgec.bundle.tried_recipe import TriedRecipe
from edgec.errors import EdgecError
from edgec.exporter.parity.refusals import JUDGED

if TYPE_CHECKING:
    from edgec.exporter.pipeline import CompiledModel
    from edgec.exporter.progress import Progress
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.stage_cache import StageCache


def compile_first_that_holds(
    request: ExportRequest, cache: StageCache, progress: Progress
) -> tuple[ExportRequest, CompiledModel]:
    """Compile a model, with what may mend it where the ladder refuses it.

    Returns:
        The request that was compiled, which says what was tried before, and the result.

    Raises:
        EdgecError: the last recipe misses its budget, too; or what no recipe changes.
    """
    from edgec.exporter.parity.advice import naming_recipes
    from edgec.exporter.pipeline import compile_model

    while True:
        try:
            with naming_recipes(request.recipe, request.target, module=request.source.kind == "module"):
                return request, compile_model(request, cache, progress)
        except EdgecError as missed:
            following = _following(request, missed, progress)
            if following is None:
                raise _named(request, missed) from missed
            why = missed.why if missed.code in JUDGED else f"{missed.what}, in {missed.where}"
            tried = TriedRecipe(recipe=request.recipe.name, missed=why)
            progress.note(f"{tried.line}: trying {following.recipe.name}")
            request = replace(following, tried=(*request.tried, tried))


def _following(request: ExportRequest, missed: EdgecError, progress: Progress) -> ExportRequest | None:
    """The request to try next: with layers in float32, then with more bits; None where nothing is left to try."""
    from edgec.exporter.bit_search.float_convolutions import finer_recipes
    from edgec.exporter.bit_search.float_layers import ROUNDS, may_keep, with_float_layers

    if may_keep(request, missed) and _rounds(request) < ROUNDS:
        kept = with_float_layers(request, progress)
        if kept is not None:
            return replace(request, recipe=kept)
    if missed.code not in JUDGED or not request.further_recipes:
        return None
    finer = () if request.tried else finer_recipes(request, progress)
    following, *others = (*finer, *request.further_recipes)
    return replace(request, recipe=following, further_recipes=tuple(others))


def _rounds(request: ExportRequest) -> int:
    """How often layers were put into float32 under the present recipe."""
    name = request.recipe.name.partition(",")[0]
    return sum(each.recipe.partition(",")[0] == name for each in request.tried)


def _named(request: ExportRequest, missed: EdgecError) -> EdgecError:
    """The refusal, with the layer that float16 takes off most where that may be the cause."""
    from edgec.exporter.bit_search.float_layers import may_keep, naming_layer

    return naming_layer(request, missed) if may_keep(request, missed) else missed
