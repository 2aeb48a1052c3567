"""Refuse models and recipes that a layout has no place for, before any work."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.request import ExportRequest
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.exporter.sources.hf_config import DECODER
from edgec.exporter.sources.model_source import ModelSource

_ONLY_TEXT = "onnxruntime-genai's layout is made here for models that continue a text; this is a model of kind {}"
_SINKS = "onnxruntime's operator forgets what lies before a window, the first tokens too"


def check_layout(source: ModelSource, recipe: Recipe, form: Form) -> None:
    """Refuse what onnxruntime-genai's layout cannot hold; attention is looked at when the model is captured.

    Raises:
        InputError: E855.
    """
    if not form.growing and not form.piped:
        return
    if source.kind != DECODER:
        raise _unfit(source.name, _ONLY_TEXT.format(source.kind))
    if form.growing and recipe.sink_tokens and any(layer.window for layer in model_spec(source.config).layers):
        raise _unfit(f"recipe {recipe.name}, cache.sink_tokens", _SINKS)


def check_windows(request: ExportRequest) -> None:
    """Refuse a context in which a long prompt would have no room in windows.

    Raises:
        InputError: E967.
    """
    if not request.form.piped:
        return
    context, window = request.limits.context, request.limits.prefill_chunk
    if context % window or context == window:
        raise InputError(
            f"A context of {context} tokens has no room for windows of {window}.",
            where="--context",
            why="onnxruntime-genai fills a prompt's last window up and counts what it fills up with: no prompt of more "
            "than whole windows fits, and with a single window no token after it",
            fix=f"use --context {max(2, context // window) * window}",
            code="E967",
        )


def _unfit(where: str, why: str) -> InputError:
    return InputError(
        "The layout genai has no place for this.",
        where=where,
        why=why,
        fix="leave --layout out: edgec's own layout has it",
        code="E855",
    )
