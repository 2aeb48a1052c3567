"""Refuse what LiteRT-LM cannot run, and make its converter importable, before any work."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.backends.litert.container import TOKENIZER, unreadable_tokenizer
from edgec.backends.litert.toolkit import prepare_converter, runtime_module
from edgec.errors import InputError
from edgec.exporter.progress import Progress
from edgec.exporter.sources.hf_config import DECODER, MODULE
from edgec.exporter.sources.model_source import ModelSource

_OTHERS = "{}; this is a model of kind {}"
_TAKES = {
    True: "a .litertlm holds a model that continues a text",
    False: "a .tflite is made of models that continue a text and, for CPUs, of networks with one call",
}
_NETWORK = "export for the CPU with --target android-litert --format tflite, or with --format pte"
_FIX = "export with --format pte, or only the text part of a multimodal model: --task text-generation"


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
    network = source.kind == MODULE and not form.packed and not form.longest
    if source.kind != DECODER and not network:
        raise InputError(
            "LiteRT's formats have no place for this model here.",
            where=source.name,
            why=_OTHERS.format(_TAKES[form.packed], source.kind),
            fix=_NETWORK if source.kind == MODULE else _FIX,
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
