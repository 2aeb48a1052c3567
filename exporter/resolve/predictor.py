"""The predictor of further tokens that ``--draft-heads`` asks for, and what cannot be had together with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgec.bundle.predictor import MTP
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.sources.drafts.predictor import Predictor


def asked_predictor(request: ExportRequest, options: ExportOptions) -> Predictor | None:
    """The predictor inside the checkpoint or in a folder of its own, where one is asked for.

    Raises:
        InputError: E847, something else that is asked for changes what it reads; as ``open_predictor``, ``open_eagle``.
    """
    if not asks_predictor(options):
        return None
    from edgec.exporter.sources.drafts.eagle import open_eagle
    from edgec.exporter.sources.drafts.mtp import open_predictor

    _check(request, options)
    if options.draft_heads == MTP:
        return open_predictor(request.source, request.spec)
    folder = Path(str(options.draft_heads))
    return open_eagle(folder, request.source, request.spec, bool(options.allow_pickle))


def asks_predictor(options: ExportOptions) -> bool:
    """Whether ``--draft-heads`` names a predictor, not heads."""
    from edgec.exporter.sources.drafts.kinds import is_eagle3

    return options.draft_heads is not None and (options.draft_heads == MTP or is_eagle3(Path(options.draft_heads)))


def _check(request: ExportRequest, options: ExportOptions) -> None:
    recipe = request.recipe
    refusals = {
        "MODEL": request.source.kind != "decoder" and "it is not a decoder",
        "--system-prompt": options.system_prompt is not None
        and "the state that is shipped is the model's, and the predictor has not read the prompt",
        "--target-bits": options.target_bits is not None and "bits are searched for a model without a predictor",
        f"recipe {recipe.name}, early_exit": recipe.early_exit and "the predictor reads the last layer's hidden states",
        f"recipe {recipe.name}, shared_kv": recipe.shared_kv and "the hidden states are others until it was adapted",
        f"recipe {recipe.name}, prepare": recipe.prepare and "matrices are changed together with those that read them",
    }
    for where, why in refusals.items():
        if why:
            raise InputError(
                what="This cannot be exported together with a predictor of further tokens.",
                where=where,
                why=why,
                fix="leave one of them out",
                code="E847",
            )
