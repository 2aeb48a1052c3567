"""The recipe of an export: the named one, the model's own, or the default of its kind, checked for the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgec.backends.forms import form_of
from edgec.backends.qnn.legality import check_chip
from edgec.devices.targets import Target
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.adapt_record import recorded_recipe
from edgec.exporter.recipes.checks import check_recipe
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.module_defaults import further_defaults, module_default, with_default_limit
from edgec.exporter.recipes.recipe import DEFAULT_RECIPE, Recipe, for_backend, with_standard_kernels
from edgec.exporter.recipes.support import STANDARD_KERNELS
from edgec.exporter.resolve.limits import check_static
from edgec.exporter.sources.modules.factory import is_factory

_NO_COMPILER = "E311"


def load_asked_recipe(options: ExportOptions, target: Target, default: str = DEFAULT_RECIPE) -> Recipe:
    """The recipe as the backend expresses it, with the caller's budgets over its own."""
    named = options.recipe or recorded_recipe(options.model) or default
    recipe = for_backend(load_recipe(named) if isinstance(named, str | Path) else named, target.backend)
    return _with_budgets(recipe, options)


def _with_budgets(recipe: Recipe, options: ExportOptions) -> Recipe:
    given = options.budgets or {}
    return replace(recipe, budgets={**recipe.budgets, **given}, accepted=given) if given else recipe


def names_no_recipe(options: ExportOptions) -> bool:
    """Whether neither the user nor the model names a recipe."""
    return not options.recipe and not recorded_recipe(options.model)


def default_of_module(target: Target, options: ExportOptions) -> tuple[Recipe, tuple[Recipe, ...]]:
    """The recipe of a non-decoder model without one of its own, and those that follow where it misses its budget."""
    first = load_asked_recipe(options, target, module_default(target))
    further = tuple(_with_budgets(each, options) for each in further_defaults(target))
    first, *others = (_check_legal(each, target, options) for each in (first, *further))
    return with_default_limit(first, tuple(others)), tuple(others)


def check_early(recipe: Recipe, target: Target, options: ExportOptions) -> Recipe:
    """Check a recipe before the model is looked for; the default of a factory's module is another one."""
    own = is_factory(str(options.model)) and names_no_recipe(options)
    return recipe if own else _check_legal(recipe, target, options)


def _check_legal(recipe: Recipe, target: Target, options: ExportOptions) -> Recipe:
    """Refuse a recipe that the target cannot execute; returns it with the kernels that its artifact will call."""
    form = form_of(target)
    recipe = recipe if form.static else with_kernels(recipe, options.kernels)
    check_recipe(recipe, target.backend)
    check_chip(target, recipe)
    if not form.static:
        return recipe
    heads, prompt = options.draft_heads is not None, options.system_prompt is not None
    check_static(recipe, form, draft_heads=heads, system_prompt=prompt)
    return recipe


def without_own_kernels(recipe: Recipe, target: Target) -> Recipe:
    """The recipe for a module on a phone, whose app calls ExecuTorch's own runtime: its kernels may read less."""
    standard = with_standard_kernels(recipe)
    check_recipe(standard, target.backend)
    return standard


def with_kernels(recipe: Recipe, asked: str | None = None) -> Recipe:
    """The recipe with the kernels its artifact will call.

    Args:
        recipe: as read; its own choice holds where ``asked`` is None.
        asked: ``edgec`` or ``standard``, with no fallback. With None, a machine that cannot compile edgec's kernels
            (has no compiler) uses ExecuTorch's: an artifact that cannot be executed here cannot be verified here.

    Raises:
        ToolError: E311, edgec's kernels were asked for and there is no compiler; E301 or E312, there is one, and the
            engine cannot be compiled or loaded.
    """
    from edgec.runtime_py.engines.choice import engine_error

    wanted = asked or recipe.kernels
    error = engine_error() if wanted == "edgec" else None
    if error and (asked or error.code != _NO_COMPILER):
        raise error
    return with_standard_kernels(recipe) if error or wanted == STANDARD_KERNELS else replace(recipe, kernels=wanted)
