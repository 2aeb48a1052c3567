"""What ``edgec plan`` forecasts: the recipe, context and calls that ``edgec export`` would use, and its other options.

MODEL, TARGET, options  ->  recipe, limits  ->  plan
                            other recipes and contexts  ->  what to ask for where it does not fit
                            the phone's other units     ->  where it would be faster
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgec.backends.forms import form_of
from edgec.bundle.entry_points import Limits
from edgec.devices.prediction.footprint import Widths
from edgec.devices.prediction.forecast import Plan
from edgec.devices.prediction.memory_fit import WORTH_SHRINKING, Narrower
from edgec.devices.prediction.parameters import DecoderShape
from edgec.devices.prediction.speed import Measured
from edgec.devices.prediction.unit_choice import PhaseUnit, unit_choice
from edgec.devices.targets import Target, all_targets, load_target
from edgec.errors import InputError
from edgec.exporter.dimensions.parameters import read_config
from edgec.exporter.dimensions.shapes import model_shape
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.resolve.adapters import with_adapters
from edgec.exporter.resolve.limits import artifact_limits
from edgec.exporter.resolve.planned_learning import History, as_this_model, learning_notes
from edgec.exporter.resolve.planned_runtimes import RuntimeChoice, runtime_choices
from edgec.exporter.resolve.planned_source import local_model, planned_source, refusal, unread_integers, with_stored
from edgec.exporter.resolve.stored_forms import as_stored
from edgec.exporter.resolve.target_choice import on_unit, plan_target
from edgec.exporter.resolve.widths import model_recipe, override_widths, recipe_widths
from edgec.exporter.sources.model_source import ModelSource

_DESCENDING = ("8bit", "5bit", "4bit", "4bit-small", "3bit")
"""Recipes that need no training, by their bytes."""

_SMALLEST_CONTEXT = 1024
_NOT_HERE = ("E172", "E176", "E183")
"""A target's format cannot hold the recipe's bits."""


@dataclass(frozen=True)
class Question:
    """What is planned.

    Attributes:
        model: a folder, a config.json, a GGUF file or a hub id.
        target: a target's name.
        recipe: a name or a file; None: the model's own, else the default.
        task: as ``edgec export --task``.
        context: tokens of the KV cache; None: those of the export.
        prompt_tokens: of the prompt that speeds are given for; None: 512, or the context where that is less.
        adapters: each ``NAME=PEFT_FOLDER``.
        measured: the user's own measurements of speeds.
        history: those that ``edgec bench`` kept of this phone.
        bits: fields of ``Widths`` to have instead of the recipe's; None leaves one as it is.
        phone_file: the file that describes the target's phone, for the commands.
        unit: as ``edgec export --unit``.
    """

    model: str
    target: str
    recipe: str | None = None
    task: str | None = None
    context: int | None = None
    prompt_tokens: int | None = None
    adapters: Sequence[str] = ()
    measured: Measured = ()
    history: History = field(default_factory=History)
    bits: Mapping[str, int | None] = field(default_factory=dict)
    phone_file: Path | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Planned:
    """A plan and what goes with it.

    Attributes:
        question: what was asked.
        plan: for the target.
        recipe: the name of its recipe.
        target_choice: why this phone was chosen, where a family was named; else empty.
        phases: the units proposed for prefill and decode; empty for a model that writes no text.
        refusal: why an export would refuse the model for this target; None where nothing is known against it.
        learning: what each of the user's own measurements teaches.
        runtimes: what should execute it on each unit of an Android phone.
    """

    question: Question
    plan: Plan
    recipe: str
    target_choice: str
    phases: tuple[PhaseUnit, ...]
    refusal: InputError | None
    learning: tuple[str, ...] = ()
    runtimes: tuple[RuntimeChoice, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """On what the estimates assume, what they learned from, and why one is unavailable."""
        return (*self.plan.notes, *self.learning)


def answer(question: Question) -> Planned:
    """Plan a model as an export of it would be made.

    Raises:
        InputError: what ``model_recipe``, ``model_shape`` and ``plan`` raise.
    """
    asked = on_unit(load_target(question.target), question.unit)
    source = planned_source(local_model(question.model), question.task)
    recipe, shape = _recipe(question, asked, source), _shape(question, asked, source)
    every = question.history.beside(question.measured)
    question = replace(question, measured=as_this_model(every, shape))
    planned, choice = _fitting(question, shape, asked, recipe, source)
    refused = refusal(source, shape, recipe, asked)
    if not planned.context:
        return Planned(question, planned, recipe.name, choice, (), refused)
    others = dict(_other_units(question, shape, planned.target, source))
    # A unit that an export refuses is not proposed, unless there is no other.
    units = others if refused is not None and others else {planned.target.unit: planned, **others}
    taught = learning_notes(question.measured, question.history, shape, planned.target)
    runtimes = runtime_choices(planned.target, source.kind, question.context, shape.states != ())
    return Planned(question, planned, recipe.name, choice, unit_choice(units), refused, tuple(taught), runtimes)


def _recipe(question: Question, target: Target, source: ModelSource) -> Recipe:
    recipe = model_recipe(question.model, question.recipe, target, question.task)
    return as_stored(recipe, source, ExportOptions(model=question.model, recipe=question.recipe))


def _shape(question: Question, target: Target, source: ModelSource) -> DecoderShape:
    folder = None if question.model.endswith(".json") else source.path
    config, form = read_config(question.model), form_of(target)
    shape = model_shape(config, form=form, task=question.task, context=question.context, folder=folder)
    shape = replace(shape, remarks=(*shape.remarks, *unread_integers(config, source)))
    return with_adapters(shape, question.adapters, form)


def _planned(
    question: Question, shape: DecoderShape, target: Target, recipe: Recipe, source: ModelSource
) -> tuple[Plan, str]:
    """A plan without what else an export can be asked for."""
    return _plan(question, shape, target, recipe, source, lambda _: ())


def _fitting(
    question: Question, shape: DecoderShape, target: Target, recipe: Recipe, source: ModelSource
) -> tuple[Plan, str]:
    """A plan which also says what would fit, where it does not."""
    first = _planned(question, shape, target, recipe, source)
    if first[0].verdict not in WORTH_SHRINKING:
        return first
    return _plan(
        question, shape, target, recipe, source, lambda limits: tuple(_narrower(question, target, recipe, limits))
    )


def _plan(
    question: Question,
    shape: DecoderShape,
    target: Target,
    recipe: Recipe,
    source: ModelSource,
    narrower: Callable[[Limits], Sequence[Narrower]],
) -> tuple[Plan, str]:
    prompt = question.prompt_tokens
    widths = override_widths(with_stored(recipe_widths(recipe), recipe, source), **question.bits)
    if not shape.spec.layers:
        return plan_target(shape, target, widths, context=question.context, prompt_tokens=prompt)
    limits = artifact_limits(shape.spec, recipe, question.context, form_of(target))
    # Refused as it was asked for, with the model's own length in the message.
    context = question.context or max(limits.context, min(prompt or 0, shape.spec.context))
    lengths = {"context": context, "prompt_tokens": prompt, "call_tokens": limits.prefill_chunk}
    return plan_target(shape, target, widths, **lengths, narrower=narrower(limits), measured=question.measured)


def _narrower(question: Question, target: Target, recipe: Recipe, limits: Limits) -> Iterator[Narrower]:
    """What else an export can be asked for: recipes with ever fewer bytes, then half of the context and so on."""
    last: tuple[tuple[str, ...], Widths] = ((), recipe_widths(recipe))
    if question.recipe is not None:
        last = (("--recipe", question.recipe), last[1])
    for name in _after(recipe.name):
        with suppress(InputError):
            last = (("--recipe", name), recipe_widths(model_recipe(question.model, name, target, question.task)))
            yield Narrower(last[0], last[1], question.context or limits.context)
    context = limits.context // 2
    while context >= _SMALLEST_CONTEXT:
        yield Narrower((*last[0], "--context", str(context)), last[1], context)
        context //= 2


def _after(name: str) -> tuple[str, ...]:
    return _DESCENDING[_DESCENDING.index(name) + 1 :] if name in _DESCENDING else _DESCENDING


def _other_units(
    question: Question, shape: DecoderShape, planned: Target, source: ModelSource
) -> Iterator[tuple[str, Plan]]:
    """A plan for each other unit of the phone that edgec makes an artifact for, by the default of that unit."""
    seen = {planned.unit}
    for target in all_targets():
        if target.phone != planned.phone or target.unit in seen or not target.export_supported:
            continue
        seen.add(target.unit)
        other = replace(question, target=target.name, unit=None, adapters=())
        try:
            recipe = _recipe(other, target, source)
            # Only what lies beside a decoder is other for other targets.
            plain = shape.encoder is None and not shape.remarks
            own = replace(shape, adapter_bytes=0) if plain else _shape(other, target, source)
            if refusal(source, own, recipe, target) is None:
                yield target.unit, _planned(other, own, target, recipe, source)[0]
        except InputError as error:
            if error.code not in _NOT_HERE:
                raise
