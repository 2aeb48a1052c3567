"""The recipe of a checkpoint that is quantised already, and what an export will do to its integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from edgec.backends.forms import Form
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.recipes.support import support_of
from edgec.exporter.sources.stored_parameters import stored_parameters
from edgec.ir.kernel_grids import held
from edgec.ir.weight_decision import FATES, RE_EXPRESSED, ROUNDED_AGAIN
from edgec.ir.weight_scheme import WeightScheme

if TYPE_CHECKING:
    from edgec.exporter.sources.model_source import ModelSource
    from edgec.passes.compress.rounding.stored_integers import StoredForm

AS_STORED = "as-stored"
NEVER = "never"
_PLAIN = "mse"
_LM_HEAD, _TABLE = "lm_head.weight", "embed_tokens.weight"


def as_stored(recipe: Recipe, source: ModelSource, options: ExportOptions) -> Recipe:
    """The recipe that keeps a checkpoint's integers where the target's kernels read them; else the given one.

    It is the default recipe in all else: caches, limits, and matrices stored as floats or in what no kernel reads. Its
    rules, which give some matrices more bits, are left out: they would come before what is stored.
    A recipe or bits that were asked for stay as they are.
    """
    asked, stored = options.recipe is not None or options.target_bits is not None, stored_parameters(source)
    if asked or stored is None or not any(holds(recipe, *each) for each in stored.forms.items()):
        return recipe
    described = f"The checkpoint's own integers, scales and minimums; {recipe.name} for what is stored as floats"
    kept = replace(recipe, name=AS_STORED, description=described, keep_stored=True, prepare=(), rules=())
    # No text is made, and read, where nothing is chosen by it.
    return kept if _chooses_any(kept, source) else replace(kept, algorithm=_PLAIN)


def _chooses_any(recipe: Recipe, source: ModelSource) -> bool:
    """Whether integers are chosen for any matrix: one stored as floats, or in a form that is not kept."""
    stored = stored_parameters(source)
    entries = source.weights.names() if source.weights is not None else {}
    floats = [name for name, entry in entries.items() if len(entry.shape) > 1 and not name.endswith(_TABLE)]
    forms = stored.forms if stored else {}
    return not forms.keys() >= set(floats) or not all(holds(recipe, *each) for each in forms.items())


def _keeps_any(recipe: Recipe) -> bool:
    support = support_of(recipe.backend, recipe.kernels)
    return support is not None and bool(support.stored)


def holds(recipe: Recipe, name: str, form: StoredForm) -> bool:
    """Whether the target's kernels read a parameter as its checkpoint stores it."""
    support = support_of(recipe.backend, recipe.kernels)
    if support is None or form.kept_scheme is None or (name.endswith(_TABLE) and not support.stored_tables):
        return False
    return held(form.kept_scheme, support.stored) is not None


def expected_fates(recipe: Recipe, source: ModelSource, half: bool) -> Mapping[str, list[str]]:
    """The parameters that a checkpoint stores as integers, by what will become of them; all empty where there are none.

    Args:
        recipe: resolved for the target.
        source: the model.
        half: whether the artifact holds floats in float16.
    """
    stored = stored_parameters(source)
    fates: dict[str, list[str]] = {fate: [] for fate in FATES}
    for name, form in (stored.forms if stored else {}).items():
        fates[_expected(recipe, name, form, half)].append(name)
    return fates


def _expected(recipe: Recipe, name: str, form: StoredForm, half: bool) -> str:
    ruled = next((rule for rule in recipe.rules if fnmatchcase(name, rule[0])), None)
    if ruled is None and recipe.keep_stored and holds(recipe, name, form):
        support = support_of(recipe.backend, recipe.kernels)
        return form.fate_where_read if form.half or not (support and support.stored_half) else ROUNDED_AGAIN
    schemes = _schemes(recipe, name) if ruled is None else [ruled[1]]
    return ROUNDED_AGAIN if half or any(scheme is not None for scheme in schemes) else RE_EXPRESSED


def _schemes(recipe: Recipe, name: str) -> list[WeightScheme | None]:
    """The recipe's schemes for a parameter; a table may be tied to the lm_head."""
    if name.endswith(_TABLE):
        return [recipe.embedding, recipe.lm_head]
    return [recipe.lm_head if name == _LM_HEAD else recipe.weights]


def check_requantise(options: ExportOptions, recipe: Recipe, source: ModelSource, form: Form) -> str:
    """Say what will be rounded again, before any work; "" where nothing will be.

    Raises:
        InputError: E813, something will, and ``--requantise never`` forbids it.
    """
    fates = expected_fates(recipe, source, form.static and form.half)
    again, every = fates[ROUNDED_AGAIN], sum(map(len, fates.values()))
    if not again:
        return ""
    stored = stored_parameters(source)
    assert stored is not None
    kinds = ", ".join(sorted({stored.forms[name].form for name in again}))
    what = f"{len(again)} of {every} matrices that the checkpoint stores as integers ({kinds}) are rounded again"
    if options.requantise == NEVER:
        raise InputError(
            what=f"{what}, and --requantise never forbids it",
            where=f"{again[0]}" + f" and {len(again) - 1} more" * (len(again) > 1),
            why=_why(recipe, stored.forms, options.recipe is not None or options.target_bits is not None),
            fix="leave --recipe out on a CPU target with edgec's kernels, take a checkpoint in a form that is kept "
            "(docs/checkpoints.md), or leave --requantise out",
            code="E813",
        )
    return f"{what} by the recipe {recipe.name}"


def _why(recipe: Recipe, forms: Mapping[str, StoredForm], asked: bool) -> str:
    if not _keeps_any(recipe) or (asked and not any(holds(recipe, *each) for each in forms.items())):
        return "the kernels of this target read none of the checkpoint's forms as they are"
    if recipe.keep_stored or not asked:
        return "no kernel reads these forms as they are, or float16 does not hold their scales"
    return f"the recipe {recipe.name} asks for bits of its own"
