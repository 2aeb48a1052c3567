"""Refuse what LiteRT-LM cannot run, and make its converter importable, before any work."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.backends.litert.container import TOKENIZER, unreadable_tokenizer
from edgec.backends.litert.toolkit import prepare_converter, runtime_module
from edgec.errors import InputError
from edgec.exporter.progress import Progress
from edgec.exporter.sources.hf_config import DECODER
from edgec.exporter.sources.model_source import ModelSource

_OTHERS = "its signatures are made here for models that continue a text; this is a model of kind {}"


def check_litert(source: ModelSource, form: Form, context: int, progress: Progress) -> None:
    """Refuse a model that has no signatures or no place in a ``.litertlm``, and prepare LiteRT's packages.

    Args:
        source: the model.
        form: of the artifact.
        context: what the user or the recipe asks for, or 0.
        progress: told where the converter is installed first.

    Raises:
        InputError: E906, E907, E909.
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
    if form.packed and not any(file.name == TOKENIZER for file in source.tokenizer_files):
        raise unreadable_tokenizer(source.name)
    if form.longest and context > form.longest:
        raise InputError(
            f"LiteRT's delegate for GPUs cannot tell positions of a context of {context:,} tokens apart.",
            where="--context",
            why=f"it computes in float16, which has whole numbers up to {form.longest:,}",
            fix=f"ask for at most {form.longest:,}, or export for the CPU (--target android-litert)",
            code="E909",
        )
    for name in ("ai_edge_litert.interpreter", *(("litert_lm_builder.litertlm_builder",) if form.packed else ())):
        runtime_module(name)
    prepare_converter(progress.note)
