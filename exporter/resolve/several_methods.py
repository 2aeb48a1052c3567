"""Refuse what models of several methods cannot be exported with, before any work: encoder-decoders, eyes, ears."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe

_ENCODER_DECODER_OPTIONS = {
    "--draft-heads": "draft heads need a decoder that continues a text",
    "--system-prompt": "the prompt is read by the encoder, which keeps no state",
    "--calibrate": "calibration would need text for both the encoder and the decoder",
    "--target-bits": "bits are searched for decoders only",
}
_AUDIO_LANGUAGE_OPTIONS = {
    "--draft-heads": "draft heads were trained on texts without sound",
    "--system-prompt": "its state is computed by a decoder without ears",
    "--calibrate": "calibration would need sound as well as text",
    "--target-bits": "bits are searched for decoders only",
}
_VISION_LANGUAGE_OPTIONS = {
    "--draft-heads": "draft heads were trained on texts without images",
    "--system-prompt": "its state is computed by a decoder without eyes",
    "--calibrate": "calibration would need images as well as text",
    "--target-bits": "bits are searched for decoders only",
}


def check_encoder_decoder(recipe: Recipe, form: Form, given: Mapping[str, bool]) -> None:
    """Refuse targets and options for which the methods encode, cross and forward do not exist.

    Args:
        recipe: with the kernels that the artifact will call.
        form: of the target's artifact.
        given: whether each of the options in question was given.

    Raises:
        InputError: E534.
    """
    refusals = {
        "--target": form.static and "its methods have fixed shapes, which edgec cannot give to encoder-decoders yet",
        "--kernels": recipe.kernels != "edgec" and "ExecuTorch's standard kernels do not attend to an encoder",
        **_not_with(_ENCODER_DECODER_OPTIONS, given),
        f"recipe {recipe.name}, shared_kv": bool(recipe.shared_kv) and "its layers attend to an encoder as well",
        f"recipe {recipe.name}, early_exit": bool(recipe.early_exit) and "its layers attend to an encoder as well",
        f"recipe {recipe.name}, cache.sink_tokens": bool(recipe.sink_tokens) and "its layers have no window",
    }
    _refuse_first(
        refusals,
        what="an encoder-decoder cannot be exported this way",
        fix="export for a CPU with edgec's kernels: --target host or android-cpu, without this option",
        code="E534",
    )


def check_vision_language(recipe: Recipe, form: Form, given: Mapping[str, bool]) -> None:
    """Refuse targets and options for which the methods see and forward do not exist.

    Args:
        recipe: with the kernels that the artifact will call.
        form: of the target's artifact.
        given: whether each of the options in question was given.

    Raises:
        InputError: E652.
    """
    refusals = {
        "--target": form.static and "its methods have fixed shapes, which edgec cannot give to these models yet",
        "--kernels": recipe.kernels != "edgec" and "ExecuTorch's standard kernels cannot run the image encoder",
        **_not_with(_VISION_LANGUAGE_OPTIONS, given),
    }
    _refuse_first(
        refusals,
        what="a vision-language model cannot be exported this way",
        fix="export for a CPU with edgec's kernels (--target host or android-cpu) without this option, or only the "
        "text part with --task text-generation",
        code="E652",
    )


def check_audio_language(recipe: Recipe, form: Form, given: Mapping[str, bool]) -> None:
    """Refuse targets and options for which the methods hear and forward do not exist; arguments as above.

    Raises:
        InputError: E752.
    """
    refusals = {
        "--target": form.static and "its methods have fixed shapes, which edgec cannot give to these models yet",
        "--kernels": recipe.kernels != "edgec" and "ExecuTorch's standard kernels cannot run the encoder of sound",
        **_not_with(_AUDIO_LANGUAGE_OPTIONS, given),
    }
    _refuse_first(
        refusals,
        what="a speech-language model cannot be exported this way",
        fix="export for a CPU with edgec's kernels (--target host or android-cpu) without this option, or only the "
        "text part with --task text-generation",
        code="E752",
    )


def _not_with(options: Mapping[str, str], given: Mapping[str, bool]) -> dict[str, str | bool]:
    """Why an option is refused, for each that was given."""
    return {option: given.get(option, False) and why for option, why in options.items()}


def _refuse_first(refusals: Mapping[str, str | bool], *, what: str, fix: str, code: str) -> None:
    for where, why in refusals.items():
        if why:
            raise InputError(what, where, str(why), fix, code)
