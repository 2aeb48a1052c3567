"""The files of a planned model, where they are at hand: what an export would refuse, and which integers it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from edgec.backends.forms import form_of
from edgec.backends.qnn.legality import check_chip
from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.parameters import DecoderShape, Kind
from edgec.devices.targets import Target
from edgec.errors import InputError, ToolError
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.resolve.several_methods import check_executable
from edgec.exporter.resolve.stored_forms import holds
from edgec.exporter.resolve.written_file import check_written
from edgec.exporter.sources.files.model_forms import carried_example, existing_path, is_hub_id, no_such_path
from edgec.exporter.sources.hf_config import DECODER
from edgec.exporter.sources.hub import fetch_files
from edgec.exporter.sources.hub_gguf import fetch_gguf, hub_choice, refuse_unchosen
from edgec.exporter.sources.model_source import ModelSource
from edgec.exporter.sources.modules.factory import is_factory
from edgec.exporter.sources.packed.packing import KEY as QUANTISED
from edgec.exporter.sources.resolve import resolve
from edgec.exporter.sources.stored_parameters import stored_parameters

_NO_WEIGHTS = ("E104", "E112")
_SMALL = ("*config*.json", "modules.json")
"""What says of a model on the hub how it is built, in a few kilobytes."""


def local_model(model: str) -> str:
    """The path of a model's files on this machine; of a hub id those that describe it, and weights only if cached.

    Raises:
        InputError: E101 to E103 and E148, the hub; E829, a repository of GGUF files of which none was chosen.
    """
    if existing_path(model) is not None or carried_example(model) is not None or is_factory(model):
        return model
    if (asked := hub_choice(model)) is not None:
        return str(fetch_gguf(*asked))
    if not is_hub_id(model):
        raise no_such_path(model)
    folder = fetch_files(model, None, _SMALL, ())
    refuse_unchosen(model, folder, None)
    return str(folder)


def planned_source(model: str, task: str | None = None) -> ModelSource:
    """The model as an export finds it, with random weights where its own are not on this machine.

    Args:
        model: a path of ``local_model``.
        task: as ``edgec export --task``.

    Raises:
        InputError: as ``resolve``.
    """
    if model.endswith(".json"):
        return resolve(model, task=task, random_weights=True)
    try:
        return resolve(model, task=task)
    except InputError as error:
        if error.code not in _NO_WEIGHTS:
            raise
        return resolve(model, task=task, random_weights=True)


def unread_integers(config: Mapping[str, Any], source: ModelSource) -> tuple[str, ...]:
    """A remark where a config says that its checkpoint is quantised and the integers are not on this machine."""
    stated = config.get(QUANTISED)
    if source.trained or not isinstance(stated, Mapping):
        return ()
    method = str(stated.get("quant_method", "integers"))[:40]
    return (
        f"the checkpoint is quantised ({method}) and its files are not here: an export keeps its integers where it "
        "can, this plan counts the recipe's; plan the downloaded folder to see them",
    )


def refusal(source: ModelSource, shape: DecoderShape, recipe: Recipe, target: Target) -> InputError | None:
    """Why an export for a target would refuse the model before any work; None where it does not."""
    form = form_of(target)
    try:
        with suppress(ToolError):  # What this machine lacks does not speak against the model.
            check_chip(target, recipe)
        if form.written:
            _check_file(source, recipe)
        if source.kind != DECODER or not _attends_alone(shape):
            check_executable(source, recipe, form, ExportOptions(model=source.source))
    except InputError as error:
        return error
    return None


def _check_file(source: ModelSource, recipe: Recipe) -> None:
    """Refuse what a file of weights cannot say of a model; its tokenizer is not looked at."""
    from edgec.exporter.gguf_file.description import describe_model

    check_written(source, recipe)
    describe_model(source, None)


def _attends_alone(shape: DecoderShape) -> bool:
    """Whether a decoder has neither recurrences nor experts, which every target takes."""
    return shape.states == () and all(each.active == 1 for each in shape.parameters if each.kind is Kind.LINEAR)


def with_stored(widths: Widths, recipe: Recipe, source: ModelSource) -> Widths:
    """Widths with the forms of a quantised checkpoint for the matrices that the recipe keeps."""
    stored = stored_parameters(source) if recipe.keep_stored else None
    if stored is None:
        return widths
    kept = {name: form.kept_scheme for name, form in stored.forms.items() if holds(recipe, name, form)}
    return replace(widths, rules=(*kept.items(), *widths.rules), told=_counted(kept))


def _counted(kept: Mapping[str, object]) -> str:
    """How many matrices are kept, by their form."""
    forms = [str(scheme) for scheme in kept.values()]
    counts = ", ".join(f"{forms.count(form)} {form}" for form in sorted(set(forms), key=forms.count, reverse=True))
    return f"matrices {counts}"
