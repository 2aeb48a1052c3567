"""Whose kernels an artifact calls: edgec's where they can be built and checked here, else ExecuTorch's."""

from __future__ import annotations

from dataclasses import replace

from edgec.exporter.recipes.recipe import Recipe


def with_kernels(recipe: Recipe, asked: str | None = None) -> Recipe:
    """The recipe with the kernels its artifact will call.

    Args:
        recipe: as read; its own choice holds where nothing is asked.
        asked: ``edgec`` or ``standard``, insisted on. Without it, a machine that cannot compile edgec's kernels falls
            back to ExecuTorch's: an artifact that cannot be executed here cannot be verified here.

    Raises:
        ToolError: E310 or E311, edgec's kernels are insisted on and cannot be built.
    """
    from edgec.runtime_py.engines.choice import choose_engine, missing_engine

    if asked == "edgec":
        choose_engine((), "edgec")
    wanted = asked or recipe.kernels
    fallback = asked is None and wanted == "edgec" and missing_engine()
    return replace(recipe, kernels="standard" if fallback else wanted)
