"""Refuse what LiteRT-LM cannot run, and make its converter importable, before any work."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.backends.litert.toolkit import prepare_converter, runtime_module
from edgec.errors import InputError
from edgec.exporter.progress import Progress
from edgec.exporter.sources.hf_config import DECODER
from edgec.exporter.sources.model_source import ModelSource

_OTHERS = "its signatures are made here for models that continue a text; this is a model of kind {}"


def check_litert(source: ModelSource, form: Form, progress: Progress) -> None:
    """Refuse a kind of model that has no signatures, and prepare LiteRT's packages.

    Raises:
        InputError: E907.
        ToolError: E900, E901, what the format needs is not installed and cannot be.
    """
    if not form.signatures:
        return
    if source.kind != DECODER:
        raise InputError(
            "LiteRT-LM's format has no place for this model.",
            where=source.name,
            why=_OTHERS.format(source.kind),
            fix="export with --format pte, or only the text part of a multimodal model: --task text-generation",
            code="E907",
        )
    for name in ("ai_edge_litert.interpreter", *(("litert_lm_builder.litertlm_builder",) if form.packed else ())):
        runtime_module(name)
    prepare_converter(progress.note)
