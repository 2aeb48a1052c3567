"""Refuse what models of several methods cannot be exported with, before any work: encoder-decoders, vision, audio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.resolve.unheld import check_held, check_recurrences
from edgec.exporter.sources.encoders.fixed_sources import unread
from edgec.exporter.sources.hf_config import AUDIO_LANGUAGE, DECODER, ENCODER_DECODER, VISION_LANGUAGE
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.multimodal.fixed_vision import unseen

_ON_CPUS = "export for a CPU with edgec's kernels (--target host or android-cpu) without this option"
_FIXED = "its methods have fixed shapes, which edgec cannot give to these models yet"
_OR_TEXT = ", or only the text part with --task text-generation"


@dataclass(frozen=True)
class _Kind:
    """What a kind of model cannot be exported with.

    Attributes:
        model: what it is called.
        kernels: why ExecuTorch's standard kernels do not do, for a model; empty where they do.
        options: why an option is refused, by its name.
        fix: what to do instead.
        code: of the error.
        entries: why an entry of a recipe is refused, by its name there.
    """

    model: str
    kernels: Callable[[ModelSource], str]
    options: Mapping[str, str]
    fix: str
    code: str
    entries: Mapping[str, str]


_BITS = {"--target-bits": "bits are searched for decoders only"}


def _ahead(source: ModelSource) -> str:
    sees = source.vision is not None and source.vision.asked.ahead != "none"
    return "rows of its images see rows after them, which ExecuTorch's standard attention cannot" if sees else ""


def _hears_features(source: ModelSource) -> bool:
    return source.reads is not None and source.reads.sound is not None


_KINDS = {
    ENCODER_DECODER: _Kind(
        "an encoder-decoder",
        lambda source: (
            "" if _hears_features(source) else "ExecuTorch's standard kernels do not attend to such an encoder"
        ),
        {
            "--draft-heads": "draft heads need a decoder that continues a text",
            "--system-prompt": "the prompt is read by the encoder, which keeps no state",
            "--calibrate": "calibration would need text for both the encoder and the decoder",
            **_BITS,
        },
        _ON_CPUS,
        "E534",
        {
            "shared_kv": "its layers attend to an encoder as well",
            "early_exit": "its layers attend to an encoder as well",
            "cache.sink_tokens": "its layers have no window",
        },
    ),
    VISION_LANGUAGE: _Kind(
        "a vision-language model",
        _ahead,
        {
            "--draft-heads": "draft heads were trained on texts without images",
            "--system-prompt": "its state is computed by a decoder without vision",
            "--calibrate": "calibration would need images as well as text",
            "--adapter": "adapters were made for models without vision",
            **_BITS,
        },
        _ON_CPUS + _OR_TEXT,
        "E652",
        {},
    ),
    AUDIO_LANGUAGE: _Kind(
        "a speech-language model",
        lambda _: "ExecuTorch's standard kernels cannot run the encoder of sound",
        {
            "--draft-heads": "draft heads were trained on texts without sound",
            "--system-prompt": "its state is computed by a decoder without audio",
            "--calibrate": "calibration would need sound as well as text",
            **_BITS,
        },
        _ON_CPUS + _OR_TEXT,
        "E752",
        {},
    ),
}
SEVERAL_METHODS = tuple(_KINDS)


def check_executable(source: ModelSource, recipe: Recipe, form: Form, options: ExportOptions) -> None:
    """Refuse a model that writes text where a form cannot execute it; other modules are checked elsewhere.

    Raises:
        InputError: E857, the form's layout is not for this kind; E870, the form is for decoders of text alone; as
            ``check_held``, ``check_recurrences`` and ``check_several_methods``.
    """
    if form.stateful and source.kind != DECODER:
        raise InputError(
            what=f"this model cannot have the layout {form.stateful!r}",
            where="--layout",
            why=f"it is for decoders that read text alone, and this is a model of the kind {source.kind}",
            fix="leave --layout out, or export the text part of a multimodal model: --task text-generation",
            code="E857",
        )
    if form.single and source.kind != DECODER:
        raise InputError(
            "This format is for language models of text alone.",
            where="--format",
            why=f"its artifact has one method, over a decoder's caches; this model is of another kind: {source.kind}",
            fix="export with --format mlpackage for the same unit",
            code="E870",
        )
    if source.kind == DECODER:
        check_held(source, recipe, form)
        check_recurrences(source)
    elif source.kind in SEVERAL_METHODS:
        check_several_methods(source, recipe, form, options)


def check_several_methods(source: ModelSource, recipe: Recipe, form: Form, options: ExportOptions) -> None:
    """Refuse targets, kernels and options for which the methods of such a model do not exist.

    Args:
        source: of one of the kinds SEVERAL_METHODS.
        recipe: with the kernels that the artifact will call.
        form: of the target's artifact.
        options: of the export.

    Raises:
        InputError: E534 for an encoder-decoder, E652 for a vision-language model, E752 for a speech-language model; as
            ``check_held``, where shapes are fixed.
    """
    model, given = _KINDS[source.kind], _asked_options(options)
    refusals = {
        "--target": _unplaced(source, form),
        "--kernels": not form.static and recipe.kernels != "edgec" and model.kernels(source),
        **{option: given.get(option, False) and why for option, why in model.options.items()},
        **{f"recipe {recipe.name}, {name}": _holds(recipe, name) and why for name, why in model.entries.items()},
    }
    for where, why in refusals.items():
        if why:
            raise InputError(f"{model.model} cannot be exported this way", where, why, model.fix, model.code)
    if form.static:
        check_held(source, recipe, form)


def _unplaced(source: ModelSource, form: Form) -> str:
    """Why a form of artifact has no place for the methods of such a model; empty where it has."""
    if source.vision:
        return unseen(form)
    if source.reads:
        return unread(source.reads, form)
    return _FIXED if form.static else ""


def _asked_options(options: ExportOptions) -> dict[str, bool]:
    """Whether each of the options was given that change what a decoder is."""
    return {
        "--draft-heads": options.draft_heads is not None,
        "--system-prompt": options.system_prompt is not None,
        "--calibrate": options.calibrate is not None,
        "--target-bits": options.target_bits is not None,
        "--adapter": bool(options.adapters),
    }


def _holds(recipe: Recipe, entry: str) -> bool:
    return bool(getattr(recipe, entry.rpartition(".")[2]))
