"""Write a recipe as TOML, so that the result of a search can be exported again without searching."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from edgec.exporter.recipes.recipe import Recipe
from edgec.ir.kv_donors import AUTO
from edgec.ir.weight_scheme import WeightScheme

_INT = ("bits", "group_size", "symmetric", "activation_bits", "activation_group", "scale_bits")
_KEYS = {
    "int": _INT,
    "lut": ("kind", "bits", "group_rows", "sparsity", "sparse_block"),
    "balanced": ("kind", "group_rows"),
}
_LOOKUP = frozenset({"activation_bits", "activation_group"})


def recipe_text(recipe: Recipe) -> str:
    """The TOML that ``parse_recipe`` reads back as the same recipe, for the backend and kernels it was resolved for."""
    return "\n".join(_lines(recipe)) + "\n"


def _lines(recipe: Recipe) -> Iterator[str]:
    top = {"description": recipe.description, "algorithm": recipe.algorithm, "prepare": list(recipe.prepare)}
    top |= {"keep_float": list(recipe.keep_float)}
    blocks = recipe.allow_block_scales or None
    flags = {"allow_block_scales": blocks, "keep_stored": recipe.keep_stored or None}
    yield from _pairs({**top, "kernels": recipe.kernels, "early_exit": recipe.early_exit, **flags})
    for name in ("weights", "lm_head", "embedding"):
        scheme = getattr(recipe, name)
        if scheme is not None:
            yield from _table(name, _scheme(scheme, _LOOKUP if name == "embedding" else frozenset()))
    yield from _table("cache", {"dtype": recipe.kv_dtype, "sink_tokens": recipe.sink_tokens})
    if recipe.shared_kv:
        limit = recipe.boundary_kl if recipe.boundary == AUTO else None
        yield from _table("shared_kv", {"mode": recipe.shared_kv, "boundary": recipe.boundary, "max_kl": limit})
    limits = {"context": recipe.context, "prefill_chunk": recipe.prefill_chunk, "logit_rows": recipe.logit_rows}
    yield from _table("limits", limits)
    if recipe.budgets:
        yield from _table("budgets", recipe.budgets)
    for pattern, rule in recipe.rules:
        values = {"float": True} if rule is None else _scheme(rule, frozenset())
        yield from ("", "[[rules]]", *_pairs({"parameters": pattern, **values}))


def _table(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"[{name}]", *_pairs(values))


def _scheme(scheme: WeightScheme, left_out: frozenset[str]) -> dict[str, Any]:
    """The keys of a scheme's kind; apart from bits and groups, those at their default are left out."""
    default = {each.name: each.default for each in fields(WeightScheme)}
    always = {"bits", "group_size", "group_rows"}
    return {
        key: getattr(scheme, key)
        for key in _KEYS[scheme.kind]
        if key not in left_out and (key in always or getattr(scheme, key) != default[key])
    }


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    """Lines ``key = value``; strings, numbers, booleans and lists are the same in JSON and TOML."""
    for key, value in values.items():
        if value is not None and value != []:
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
