"""The bits of a recipe as ``edgec plan`` counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.parameters import Kind
from edgec.devices.targets import DEFAULT_TARGET, Target
from edgec.exporter.dimensions.parameters import read_config, whole_config
from edgec.exporter.recipes.adapt_record import as_recorded, recorded_recipe
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.module_defaults import module_default
from edgec.exporter.recipes.recipe import DEFAULT_RECIPE, Recipe, for_backend
from edgec.exporter.recipes.support import Support, support_of
from edgec.exporter.resolve.recipe_choice import without_own_kernels
from edgec.exporter.sources.files.model_folder import CONFIG
from edgec.exporter.sources.hf_config import MODULE, kind_of
from edgec.ir.weight_scheme import CONTAINER, WeightScheme

_KV_BITS = {"float32": 32, "float16": 16, "int8": 8, "int4": 4}


def recipe_widths(recipe: Recipe) -> Widths:
    """The widths a recipe asks for, and the forms that it stores weights in; float is what its backend computes in.

    Args:
        recipe: resolved for its backend (``for_backend``).
    """
    support = support_of(recipe.backend, recipe.kernels)
    scheme, lm_head = (_container(each, support) for each in (recipe.weights, recipe.lm_head))
    schemes = {Kind.LINEAR: scheme, Kind.LM_HEAD: lm_head, Kind.EMBEDDING: recipe.embedding}
    return Widths(
        weight_bits=_bits(scheme, support),
        group_size=scheme.group_size if scheme else 0,
        embedding_bits=_bits(recipe.embedding, support),
        lm_head_bits=_bits(lm_head, support),
        kv_bits=_KV_BITS[recipe.kv_dtype],
        kv_boundary=_boundary(recipe),
        schemes={kind: scheme for kind, scheme in schemes.items() if scheme},
        rules=tuple((pattern, _container(ruled, support)) for pattern, ruled in recipe.rules),
        standard_kernels=recipe.kernels == "standard",
        float_inputs=_reads_floats(scheme, support),
    )


def _reads_floats(scheme: WeightScheme | None, support: Support | None) -> bool:
    """Whether integers read activations in float on a backend that otherwise quantises these."""
    integers = scheme is not None and not scheme.is_table and scheme.activation_bits == 0
    return integers and support is not None and support.dynamic_activations


def _boundary(recipe: Recipe) -> float | int | str | None:
    """From which layer on no layer has its own cache; None where all have one, as projecting layers do."""
    return recipe.boundary if recipe.shared_kv == "reuse" else None


def _container(scheme: WeightScheme | None, support: Support | None) -> WeightScheme | None:
    """The scheme that holds a weight: integers, where a backend has no tables for the balanced set."""
    if not (scheme and scheme.is_table and support and not support.table_bits):
        return scheme
    return next((WeightScheme(2, 0) for grid in support.kernels if grid.bits == 2), CONTAINER)


def named_widths(name: str | Path, backend: str, config: Mapping[str, Any] | None = None) -> Widths:
    """The widths of a named recipe or a file as a backend expresses it.

    Args:
        name: of the recipe, or its file.
        backend: a target's.
        config: of the model; one that was adapted shares keys and values as it was trained to.

    Raises:
        InputError: E175 or E171, there is no such recipe; E172, the backend does not execute it; E505, the recipe
            shares keys and values differently from the model.
    """
    return recipe_widths(_legal(name, backend, config))


def _legal(name: str | Path, backend: str, config: Mapping[str, Any] | None) -> Recipe:
    recipe = load_recipe(name)
    check_recipe(recipe, backend)
    return as_recorded(for_backend(recipe, backend), config or {})


def model_widths(model: str | Path, recipe: str | None, target: Target, task: str | None = None) -> Widths:
    """The widths of a model by the recipe that an export of it would have; arguments and errors of ``model_recipe``."""
    return recipe_widths(model_recipe(model, recipe, target, task))


def model_recipe(model: str | Path, recipe: str | None, target: Target, task: str | None = None) -> Recipe:
    """The recipe of a model's export: the one asked for, else the one it was adapted to, else its kind's default.

    Args:
        model: a folder, a config.json or a hub id.
        recipe: a name or a file, or None.
        target: what is planned for.
        task: as ``edgec export --task``; None: as the config says.

    Raises:
        InputError: as ``named_widths``; E111, the config cannot be read.
    """
    config = read_config(model)
    folder = Path(model) if Path(model).is_dir() else Path(model).parent
    module = kind_of(whole_config(config, folder / CONFIG), task) == MODULE
    named = recipe or recorded_recipe(folder) or (module_default(target) if module else DEFAULT_RECIPE)
    if not module or target.name == DEFAULT_TARGET:
        return _legal(named, target.backend, config)
    return without_own_kernels(for_backend(load_recipe(named), target.backend), target)


def override_widths(widths: Widths, **given: int | None) -> Widths:
    """Widths with the command line's values over them."""
    stated: dict[str, Any] = {name: bits for name, bits in given.items() if bits is not None}
    return replace(widths, **stated)


def _bits(scheme: WeightScheme | None, support: Support | None) -> int:
    """Bits of a weight; without a scheme those of the backend's float."""
    if scheme is not None:
        return scheme.bits
    return _KV_BITS[support.cache[0]] if support else 32
