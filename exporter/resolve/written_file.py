"""Refuse, before any work, what a file of weights for another program cannot say."""

from __future__ import annotations

from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.sources.model_source import ModelSource


def check_written(source: ModelSource, recipe: Recipe) -> None:
    """Refuse models that are not decoders, and recipes that change what a decoder computes.

    Raises:
        InputError: E828.
    """
    refusals = {
        source.name: source.kind != "decoder" and f"it is a model of the kind {source.kind}",
        f"recipe {recipe.name}, shared_kv": recipe.shared_kv and "llama.cpp gives every layer keys and values",
        f"recipe {recipe.name}, early_exit": recipe.early_exit and "llama.cpp computes every layer",
        f"recipe {recipe.name}, cache.sink_tokens": recipe.sink_tokens and "llama.cpp's windows keep no first tokens",
    }
    for where, why in refusals.items():
        if why:
            raise InputError(
                what="GGUF files hold decoders as their makers trained them.",
                where=where,
                why=why,
                fix="leave --format gguf out, or the entry of the recipe",
                code="E828",
            )
