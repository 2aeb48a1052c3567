"""The limits of an artifact: context, chunk and logit rows that fit the model, the recipe and the options."""

from __future__ import annotations

from edgec.backends.forms import Form
from edgec.bundle.entry_points import Limits
from edgec.errors import InputError
from edgec.exporter.recipes.recipe import Recipe
from edgec.ir.spec import ModelSpec

AHEAD_CHUNK = 512
"""Tokens of a call where the rows of an image see each other: all of them come in one."""


def longest_with_reach(spec: ModelSpec) -> int:
    """The longest context of a model whose tokens see others after themselves: that of its shortest window."""
    return min((layer.window for layer in spec.layers if layer.window), default=spec.usual_context)


def context_note(spec: ModelSpec, context: int) -> str:
    """What a context says about a model that rotates longer texts by other frequencies; empty for every other."""
    first = spec.original_context
    if first is None:
        return ""
    if context > first:
        return f"rotated at every position as texts of more than {first:,} tokens are, shorter ones too (LongRoPE)"
    return f"beyond {first:,} tokens other frequencies would hold at every position (LongRoPE): ask by --context"


def artifact_limits(spec: ModelSpec, recipe: Recipe, context: int | None, form: Form, ahead: bool = False) -> Limits:
    """The context and sizes of calls that a decoder's artifact serves; arguments as of ``static_limits``."""
    if form.static:
        return static_limits(spec, recipe, context, form, ahead)
    if ahead:
        return decoder_limits(spec, recipe, context, AHEAD_CHUNK, longest_with_reach(spec))
    return decoder_limits(spec, recipe, context)


def decoder_limits(
    spec: ModelSpec, recipe: Recipe, context: int | None, least_chunk: int = 1, longest: int | None = None
) -> Limits:
    """The limits of a decoder on a CPU.

    Args:
        spec: its shape.
        recipe: gives chunk and rows.
        context: what the user asked for, or None.
        least_chunk: tokens that a call takes at least, where the context has as many.
        longest: positions that the recipe gets at most, whose number is made for any model; None for the model's.
    """
    usual = min(spec.usual_context, longest or spec.context)
    length = min(context or min(recipe.context or usual, usual), spec.context)
    chunk = max(1, min(max(recipe.prefill_chunk, least_chunk), length))
    return Limits(context=length, prefill_chunk=chunk, logit_rows=max(1, min(recipe.logit_rows, chunk)))


def static_limits(spec: ModelSpec, recipe: Recipe, context: int | None, form: Form, ahead: bool = False) -> Limits:
    """The limits of a decoder with static methods.

    Args:
        spec: its shape.
        recipe: gives chunk and context.
        context: what the user asked for, or None.
        form: of the artifact.
        ahead: tokens see others after themselves, so that all of an image comes in one call.
    """
    longest = longest_with_reach(spec) if ahead else spec.usual_context
    length = min(context or min(recipe.context or form.context, longest), spec.context)
    chunk = max(recipe.prefill_chunk, AHEAD_CHUNK) if ahead else min(recipe.prefill_chunk, form.chunk)
    return Limits(context=length, prefill_chunk=max(1, min(chunk, length)), logit_rows=1)


def slots(limits: Limits, ahead: bool = False) -> int:
    """Positions that a state holds: the context, rounded up to whole chunks, as padding is written too.

    ``ahead``: a chunk more, as all of an image comes in one call, wherever it begins.
    """
    chunk = limits.prefill_chunk
    return -(-limits.context // chunk) * chunk + (chunk if ahead else 0)


def check_static(recipe: Recipe, form: Form, *, draft_heads: bool, system_prompt: bool) -> None:
    """Refuse what static methods cannot do, before any work.

    Raises:
        InputError: E402.
    """
    refusals = {
        "--draft-heads": draft_heads and "static methods return the logits of one row, and draft heads need more",
        "--system-prompt": system_prompt and "the states of this format cannot be read here",
        f"recipe {recipe.name}, cache.dtype": recipe.kv_dtype not in form.caches
        and f"its states hold {form.caches[0]}, not {recipe.kv_dtype}",
    }
    for where, why in refusals.items():
        if why:
            raise InputError(
                what=f"{form.artifact} cannot do this",
                where=where,
                why=why,
                fix="leave it out, or export for a CPU (--target iphone-16-pro-cpu)",
                code="E402",
            )
