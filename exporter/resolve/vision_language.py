"""Refuse what a vision-language model cannot be exported with, before any work."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe

_OPTIONS = {
    "--draft-heads": "draft heads were trained on texts without images",
    "--system-prompt": "its state is computed by a decoder without eyes",
    "--calibrate": "calibration would need images as well as text",
    "--target-bits": "bits are searched for decoders only",
}


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
        **{option: given.get(option, False) and why for option, why in _OPTIONS.items()},
    }
    for where, why in refusals.items():
        if why:
            raise InputError(
                what="a vision-language model cannot be exported this way",
                where=where,
                why=why,
                fix="export for a CPU with edgec's kernels (--target host or android-cpu) without this option, or only "
                "the text part with --task text-generation",
                code="E652",
            )
