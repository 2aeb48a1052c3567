"""The bit search as a stage of an export, kept in the stage cache so that it is not repeated."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.bundle.manifest import BitSearch
from edgec.errors import InputError
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.text import recipe_text

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.stage_cache import StageCache
    from edgec.ir.program import Program

_RECIPE, _SEARCH = "recipe.toml", "search.json"
_SEARCHING = ("edgec.exporter.bit_search.search", "edgec.exporter.stages.capturing")


def with_bits(
    request: ExportRequest, target_bits: float | None, cache: StageCache, progress: Progress
) -> ExportRequest:
    """The request with a rule for each layer, where ``--target-bits`` was given.

    Raises:
        InputError: E530, E531 as ``search_bits``; E532, the model is not a decoder, or there is no calibration text.
    """
    from edgec.exporter.provenance import source_digest
    from edgec.exporter.request import request_inputs
    from edgec.exporter.stage_cache import stage_key

    if target_bits is None:
        return request
    _check(request)
    inputs = {**request_inputs(request, cache), "stage": "bits", "target_bits": target_bits}
    key = stage_key({**inputs, "edgec": source_digest(_SEARCHING)})
    progress.enter("search", cached=(known := cache.get(key)) is not None)
    folder = known or cache.put(key, lambda place: _search(request, target_bits, place, progress))
    return _read(request, folder)


def _search(request: ExportRequest, target_bits: float, folder: Path, progress: Progress) -> None:
    from edgec.exporter.bit_search.search import search_bits

    program, window = plain_program(request), request.limits.context
    recipe, search = search_bits(program, request.recipe, request.calibration, target_bits, window, progress)
    (folder / _RECIPE).write_text(recipe_text(recipe))
    (folder / _SEARCH).write_text(search.model_dump_json())


def _read(request: ExportRequest, folder: Path) -> ExportRequest:
    from edgec.exporter.recipes.file import parse_recipe

    search = BitSearch.model_validate_json((folder / _SEARCH).read_text())
    name = f"{request.recipe.name}, {search.bits:.2f} bits"
    rules = parse_recipe(tomllib.loads((folder / _RECIPE).read_text()), name, str(folder)).rules
    recipe = replace(request.recipe, name=name, rules=rules)
    check_recipe(recipe, request.target.backend)
    return replace(request, recipe=recipe, bit_search=search)


def plain_program(request: ExportRequest) -> Program:
    """The decoder as it will be stored, with plain operators that have gradients."""
    from edgec.exporter.stages.capturing import capture, hold_weights
    from edgec.passes.cleanup.remove_noops import RemoveNoops
    from edgec.passes.contract import run_passes
    from edgec.passes.draft.early_exit import EarlyExit
    from edgec.passes.fuse.matmul_to_linear import MatmulToLinear
    from edgec.passes.kv.shared_kv import SharedKv

    recipe = request.recipe
    program = capture(request.source, hold_weights(request.source), request.spec, request.limits)
    early = [EarlyExit(recipe.early_exit)] if recipe.early_exit else []
    shared = [SharedKv(recipe.boundary, recipe.shared_kv)] if recipe.shared_kv else []
    return run_passes(program, [RemoveNoops(), MatmulToLinear(), *early, *shared], in_place=True)


def _check(request: ExportRequest) -> None:
    reasons = {
        "the model is not a decoder": request.source.kind != "decoder",
        "there is no --calibrate text to measure layers on": not request.calibration,
    }
    for why, so in reasons.items():
        if so:
            raise InputError(
                what="bits per layer cannot be searched for",
                where="--target-bits",
                why=why,
                fix="pass --calibrate FILE with text like what the model will see, or write rules into a recipe",
                code="E532",
            )
