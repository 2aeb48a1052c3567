"""Making calibration text as a stage of an export, kept in the stage cache under what it depends on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.exporter.progress import Progress
from edgec.exporter.recipes.calibrated import reads_text

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.stage_cache import StageCache

_TEXT = "text.json"
_MAKING = ("edgec.exporter.calibration.made_text",)
# Of everything that stages depend on: what the model is.
_READ = ("files", "config", "source", "trained", "seed")


def with_text(
    request: ExportRequest, cache: StageCache, progress: Progress, *, searched: bool = False
) -> ExportRequest:
    """The request with text to calibrate on, where its recipe uses text and none was given.

    Args:
        request: of any model; one that is not a decoder, or has its text, is returned as it is.
        cache: keeps the text.
        progress: told of the stage.
        searched: whether bits per layer are searched for, which takes text whatever the recipe is.
    """
    if request.calibration or not _uses_text(request, searched):
        return request
    from edgec.exporter.calibration.made_text import MadeText

    key = _key(request, cache)
    progress.enter("text", cached=(known := cache.get(key)) is not None)
    folder = known or cache.put(key, lambda place: _make(request, place, progress))
    made = MadeText.model_validate_json((folder / _TEXT).read_text())
    return replace(request, calibration=made.tokens, calibration_text=made.told)


def _uses_text(request: ExportRequest, searched: bool) -> bool:
    from edgec.exporter.adapt.boundary import is_open

    recipe, source = request.recipe, request.source
    if source.kind != "decoder" or source.weights is None:
        return False
    return searched or is_open(recipe) or reads_text(recipe)


def _key(request: ExportRequest, cache: StageCache) -> str:
    from edgec.exporter.calibration.made_text import SEED
    from edgec.exporter.provenance import source_digest, tool_versions
    from edgec.exporter.request import request_inputs
    from edgec.exporter.stage_cache import stage_key

    inputs = {name: value for name, value in request_inputs(request, cache).items() if name in _READ}
    own = {"stage": "text", "draws": SEED, "context": request.limits.context, "tools": tool_versions()}
    return stage_key({**inputs, **own, "edgec": source_digest(_MAKING)})


def _make(request: ExportRequest, folder: Path, progress: Progress) -> None:
    from edgec.exporter.calibration.made_text import make_text

    made = make_text(request, lambda share: progress.step(share, "the model writes the text to calibrate on"))
    (folder / _TEXT).write_text(made.model_dump_json())
