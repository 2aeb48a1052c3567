"""The files of a planned model, where they are at hand: what an export would refuse, and which integers it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgec.backends.forms import Form
from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.parameters import DecoderShape, Kind
from edgec.errors import InputError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.resolve.several_methods import check_executable
from edgec.exporter.resolve.stored_forms import holds
from edgec.exporter.sources.hf_config import DECODER
from edgec.exporter.sources.model_forms import existing_path
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.stored_parameters import stored_parameters

_NO_WEIGHTS = ("E104", "E112")


def local_source(model: str, task: str | None = None) -> ModelSource | None:
    """The model, if its files are here; a config alone has random weights. None for a hub id.

    Raises:
        InputError: as ``resolve``.
    """
    path = existing_path(model)
    if path is None:
        return None
    if path.suffix == ".json":
        return resolve(model, task=task, random_weights=True)
    try:
        return resolve(model, task=task)
    except InputError as error:
        if error.code not in _NO_WEIGHTS:
            raise
        return resolve(model, task=task, random_weights=True)


def refusal(source: ModelSource | None, shape: DecoderShape, recipe: Recipe, form: Form) -> InputError | None:
    """Why an export for a form would refuse the model before any work; None where it does not, or nothing is known."""
    if source is None or (source.kind == DECODER and _attends_alone(shape)):
        return None
    try:
        check_executable(source, recipe, form, ExportOptions(model=source.source))
    except InputError as error:
        return error
    return None


def _attends_alone(shape: DecoderShape) -> bool:
    """Whether a decoder has neither recurrences nor experts, which every target takes."""
    return shape.states == () and all(each.active == 1 for each in shape.parameters if each.kind is Kind.LINEAR)


def with_stored(widths: Widths, recipe: Recipe, source: ModelSource | None) -> Widths:
    """Widths with the forms of a quantised checkpoint for the matrices that the recipe keeps."""
    stored = stored_parameters(source) if recipe.keep_stored and source is not None else None
    if stored is None:
        return widths
    kept = {name: form.kept_scheme for name, form in stored.forms.items() if holds(recipe, name, form)}
    return replace(widths, rules=(*kept.items(), *widths.rules), told=_counted(kept))


def _counted(kept: Mapping[str, object]) -> str:
    """How many matrices are kept, by their form."""
    forms = [str(scheme) for scheme in kept.values()]
    counts = ", ".join(f"{forms.count(form)} {form}" for form in sorted(set(forms), key=forms.count, reverse=True))
    return f"matrices {counts}"
