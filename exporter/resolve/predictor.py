"""The predictor of further tokens that ``--draft-heads mtp`` asks for, and what cannot be had together with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgec.bundle.predictor import MTP
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions

if TYPE_CHECKING:
    from edgec.exporter.request import ExportRequest
    from edgec.exporter.sources.drafts.mtp import Predictor


def asked_predictor(request: ExportRequest, options: ExportOptions) -> Predictor | None:
    """The predictor inside the checkpoint, where it is asked for.

    Raises:
        InputError: E847, something else that is asked for changes what it reads; E106, E846 as ``open_predictor``.
    """
    if options.draft_heads != MTP:
        return None
    from edgec.exporter.sources.drafts.mtp import open_predictor

    _check(request, options)
    return open_predictor(request.source, request.spec)


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
                what="This cannot be exported together with the checkpoint's predictor.",
                where=where,
                why=why,
                fix="leave one of them out",
                code="E847",
            )
