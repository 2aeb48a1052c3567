"""The command lines that a plan proposes, each one that ``edgec export`` accepts, with what it gains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import join
from typing import TYPE_CHECKING

from edgec.devices.targets import formats_of
from edgec.exporter.resolve.planned_figures import megabytes, rounded, unit_name

if TYPE_CHECKING:
    from edgec.devices.prediction.estimate import Range
    from edgec.devices.targets import Target
    from edgec.exporter.resolve.planned import Planned, Question


@dataclass(frozen=True)
class ProposedCommand:
    """A command line, and what it gains over the plan; empty where it makes what was planned."""

    line: str
    gain: str = ""


def proposed_commands(answered: Planned) -> Iterator[ProposedCommand]:
    """Commands that make what was planned, what would fit better, and what would be faster."""
    question, forecast = answered.question, answered.plan
    possible = forecast.target.export_supported and answered.refusal is None
    if possible and not any(question.bits.values()):
        target = forecast.target.name if answered.target_choice else question.target
        yield ProposedCommand(_line(question, target))
    if possible and (smaller := forecast.smaller) is not None:
        needs = f"needs at most {megabytes(smaller.peak_bytes.high)}: {smaller.verdict}"
        unasked = replace(question, recipe=None, context=None)
        yield ProposedCommand(_line(unasked, question.target, smaller.asked.options), needs)
    yield from _other_units(answered)


def _other_units(answered: Planned) -> Iterator[ProposedCommand]:
    """A command for each other unit that is expected to be the fastest in a phase.

    Where an export refuses the planned unit, one for each that takes the model.
    """
    refused, gains = answered.refusal is not None, dict[tuple[str, str], list[str]]()
    for phase in answered.phases:
        for each in phase.speeds if refused else phase.speeds[:1]:
            if each.unit != answered.plan.target.unit and (refused or each.tokens_per_s is not None):
                told = gains.setdefault((each.target, each.unit), [])
                told += [f"{phase.phase} {_span(each.tokens_per_s)}"] if each.tokens_per_s else []
    known = answered.plan.speeds.decode_tokens_per_s is not None
    words = "takes it" if refused else "may be faster" if known else "has an estimate"
    for (target, unit), told in gains.items():
        speeds = f": {', '.join(told)} tokens/s" if told else ""
        name = unit_name(answered.plan.target.os, unit)
        yield ProposedCommand(_line(answered.question, target), f"the {name} {words}{speeds}")


def _span(speed: Range) -> str:
    return f"{rounded(speed.low)} to {rounded(speed.high)}"


def _line(question: Question, target: str, options: Sequence[str] = ()) -> str:
    unit = question.unit if target == question.target else None
    asked = {"--unit": unit, "--recipe": question.recipe, "--context": question.context, "--task": question.task}
    phone = [] if question.phone_file is None else ["--phone", str(question.phone_file)]
    words = ["edgec", "export", question.model, *phone, "--target", target]
    words += [str(word) for pair in asked.items() if pair[1] is not None for word in pair]
    words += [word for adapter in question.adapters for word in ("--adapter", adapter)]
    return join([*words, *options])


def made_elsewhere(target: Target) -> str:
    """Who makes models for a unit that edgec makes nothing for; empty where edgec does."""
    rows = formats_of(target.os, target.unit)
    return next((str(row.get("elsewhere", "")) for row in rows if row["format"] == target.format), "")
