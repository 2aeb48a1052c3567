"""Layers that a user keeps in float32 (``--keep-float``), for targets that compute in float16."""

from __future__ import annotations

from dataclasses import replace

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.recipe import Recipe


def with_kept_layers(recipe: Recipe, options: ExportOptions) -> Recipe:
    """The recipe with the layers that the options name, after its own."""
    return replace(recipe, keep_float=tuple(dict.fromkeys((*recipe.keep_float, *options.keep_float))))


def check_kept_layers(recipe: Recipe, kind: str, form: Form) -> str:
    """What to note where a recipe keeps layers in float32 and the target does that with all; else empty.

    Raises:
        InputError: E883, the target cannot; E884, the model is a language model.
    """
    if not recipe.keep_float:
        return ""
    named = ", ".join(recipe.keep_float)
    if kind != "module":
        raise InputError(
            what="--keep-float is for models that are not language models",
            where=f"--keep-float {named}",
            why="a language model's methods share states in float16, and their norms are written so that it holds them",
            fix="leave --keep-float out",
            code="E884",
        )
    if form.calibrated or not form.executed:
        raise InputError(
            what="this target keeps no layers in float32",
            where=f"--keep-float {named}",
            why="it computes in fixed point" if form.calibrated else "nothing here can execute what is made for it",
            fix="leave --keep-float out, or export for a CPU, which computes in float32",
            code="E883",
        )
    return "" if form.half else f"--keep-float {named}: this target's artifact holds every float in float32"
