"""A plan as one screen: whether it fits and why, how fast it is, what to run next, and what was assumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgec.devices.prediction.app_limit import AppLimit, memory_that_fits
from edgec.devices.prediction.memory_fit import Verdict
from edgec.devices.prediction.thread_count import thread_words
from edgec.exporter.resolve.planned_commands import made_elsewhere, proposed_commands
from edgec.exporter.resolve.planned_figures import gigabytes, megabytes, rounded, unit_name
from edgec.exporter.resolve.planned_words import recipe_words

if TYPE_CHECKING:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from edgec.devices.prediction.estimate import Range
    from edgec.devices.prediction.forecast import Plan
    from edgec.devices.prediction.unit_choice import PhaseUnit
    from edgec.exporter.resolve.planned import Planned, Question
    from edgec.terminal import WordTable

_UNAVAILABLE = "unavailable"
_MODEL_FILES = ("config.json",)
_PARTS = {"linear": "linear layers", "other": "the rest", "packed copy of matrices": "a packed copy, perhaps"}
_FORMATS = {
    "pte": "an ExecuTorch .pte",
    "mlpackage": "a Core ML .mlpackage",
    "aimodel": "a Core AI .aimodel",
    "qnn": "a QNN context",
    "onnx": "ONNX",
    "gguf": "GGUF",
}
_VERBS = {"unlikely to fit": "is unlikely to fit"}
_OVERLAP = "ranges overlap, so that only edgec bench on the phone decides which is faster"


def page(answered: Planned) -> Iterator[Text | WordTable | Table | Padding]:
    """The parts of the page, from top to bottom."""
    from rich.text import Text

    forecast = answered.plan
    yield Text(_headline(answered.question, forecast), "bold")
    yield from (Text(line) for line in _verdict(answered))
    yield Text("")
    yield figures_table(answered)
    several = any(phase.unit and len(phase.speeds) > 1 for phase in answered.phases)
    if several and answered.refusal is None:
        yield Text("")
        yield units_table(answered)
    yield Text("")
    yield Text("next", "bold")
    yield from _next(answered)
    yield Text("")
    yield Text("assumed", "bold")
    yield _assumptions(answered)


def _headline(question: Question, forecast: Plan) -> str:
    target = forecast.target
    file = Path(question.model)
    name = file.parent.name if file.name in _MODEL_FILES else file.name.removesuffix(".json")
    name = question.model if not file.exists() else name or question.model
    unit = unit_name(target.os, target.unit)
    form = _FORMATS.get(target.format, target.format)
    return f"{name} ({forecast.parameters / 1e6:,.1f} M parameters), {target.phone_name}, {unit}, as {form}"


def _verdict(answered: Planned) -> Iterator[str]:
    """Whether it fits and why; where an export refuses it, that and why first."""
    forecast = answered.plan
    if answered.refusal is not None:
        refused = answered.refusal
        yield f"edgec export refuses it here: {refused.what} [{refused.code}]: {refused.why}"
    if answered.target_choice:
        yield answered.target_choice
    needs = _span(forecast.footprint.peak_bytes)
    share = _share(forecast)
    verdict = "may fit" if forecast.verdict is Verdict.UNKNOWN else str(forecast.verdict)
    told = verdict.capitalize()
    if answered.refusal is not None:
        told = f"By its memory alone it {_VERBS.get(verdict, verdict)}"
    yield f"{told}: it needs {needs}{share}; {_granted(forecast)}"


def _share(forecast: Plan) -> str:
    memory = forecast.target.memory_bytes
    if not memory:
        return ""
    share = max(forecast.footprint.peak_bytes.high / memory, 0.01)
    return f", at most {100 * share:.0f} % of its {gigabytes(memory)}"


def _granted(forecast: Plan) -> str:
    """What the system grants an app, without and with iOS's entitlement; where that is unknown, what would do."""
    limit, entitled = forecast.limit, forecast.limit_entitled
    if limit is None:
        return _unknown(forecast)
    if limit.how == "estimated":
        return f"likely up to {megabytes(limit.low_bytes)}, unlikely above {megabytes(limit.high_bytes)}"
    memory = forecast.target.memory_bytes
    told = f"an app is granted {_bounds(limit, memory)} (measured)"
    if entitled is not None and forecast.verdict_entitled is not forecast.verdict:
        more = _bounds(entitled, memory)
        told += f", with Apple's increased-memory-limit entitlement {more}: {forecast.verdict_entitled}"
    return told


def _bounds(limit: AppLimit, memory: int | None) -> str:
    low, high = megabytes(limit.low_bytes), megabytes(limit.high_bytes)
    if limit.high_bytes == memory:
        return f"at least {low}"
    return low if low == high else f"{low.removesuffix(' MB')} to {high}"


def _unknown(forecast: Plan) -> str:
    enough = memory_that_fits(forecast.target, forecast.footprint.peak_bytes.high)
    known = "how much memory it has is not known" if forecast.target.memory_bytes is None else "no limit is known"
    return known if enough is None else f"{known}: likely with {gigabytes(enough)} or more"


def figures_table(answered: Planned) -> WordTable:
    """The estimates with their ranges; of what an export refuses only sizes."""
    table = _plain_table("estimated", "likely", "range")
    for name, estimate, unit, divisor in _estimates(answered.plan, answered.refusal is None):
        table.add_row(name, *_cells(estimate, unit, divisor))
    return table


def _plain_table(*heads: str) -> WordTable:
    from edgec.terminal import WordTable

    return WordTable(*heads)


def _estimates(forecast: Plan, made: bool) -> Iterator[tuple[str, Range | None, str, float]]:
    yield "file", forecast.footprint.size_bytes, "MB", 1e6
    if not forecast.context:
        yield "memory", forecast.footprint.peak_bytes, "MB", 1e6
        return
    yield f"memory, {forecast.context:,} tokens of context", forecast.footprint.peak_bytes, "MB", 1e6
    if not made:
        return
    yield f"first token, prompt of {forecast.prompt_tokens:,} tokens", forecast.speeds.ttft_ms, "s", 1e3
    yield "prefill (reads the prompt)", forecast.speeds.prefill_tokens_per_s, "tokens/s", 1
    yield "decode (writes the answer)", forecast.speeds.decode_tokens_per_s, "tokens/s", 1


def _cells(estimate: Range | None, unit: str, divisor: float) -> tuple[str, str]:
    if estimate is None:
        return _UNAVAILABLE, ""
    low, mid, high = (rounded(value / divisor) for value in (estimate.low, estimate.mid, estimate.high))
    return f"{mid} {unit}", low if low == high else f"{low} to {high}"


def _span(estimate: Range) -> str:
    low, high = rounded(estimate.low / 1e6), megabytes(estimate.high)
    return high if f"{low} MB" == high else f"{low} to {high}"


def _next(answered: Planned) -> Iterator[Text | Padding]:
    """Commands with what they gain; where edgec makes nothing for the unit, who does."""
    from rich.padding import Padding
    from rich.text import Text

    target = answered.plan.target
    if not target.export_supported:
        nothing = f"edgec makes nothing for this {unit_name(target.os, target.unit)} yet: {made_elsewhere(target)}"
        yield Padding(Text(nothing), (0, 0, 0, 2))
    for command in proposed_commands(answered):
        # One line, which a terminal may fold and a copy has whole.
        yield Text(f"  {command.line}", no_wrap=True, overflow="ignore")
        if command.gain:
            yield Padding(Text(command.gain), (0, 0, 0, 4))


def units_table(answered: Planned) -> WordTable:
    """What each unit of the phone is expected to do in both phases, in tokens/s, and which runtime it should take.

    Why that runtime, and the target that is exported for it, is in ``--json``.
    """
    prefill, decode = ({each.unit: each.tokens_per_s for each in phase.speeds} for phase in answered.phases)
    runtimes = {each.unit: each.runtime for each in answered.runtimes}
    table = _plain_table("units, tokens/s", "prefill", "decode", *(["by"] if runtimes else []))
    for unit in prefill:
        by = [runtimes.get(unit, "")] if runtimes else []
        table.add_row(unit_name(answered.plan.target.os, unit), _speed(prefill[unit]), _speed(decode[unit]), *by)
    return table


def _speed(estimate: Range | None) -> str:
    if estimate is None:
        return _UNAVAILABLE
    low, mid, high = (rounded(value) for value in (estimate.low, estimate.mid, estimate.high))
    return f"{mid} ({low} to {high})"


def _assumptions(answered: Planned) -> Table:
    """What the figures rest on, each with a word in front."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    for word, text in _assumed(answered):
        grid.add_row(f" {word}", text)
    return grid


def _assumed(answered: Planned) -> Iterator[tuple[str, str]]:
    forecast = answered.plan
    yield "bits", f"recipe {answered.recipe}: {recipe_words(forecast.widths)}"
    parts = (f"{_PARTS.get(part.name, part.name)} {rounded(part.bytes / 1e6)}" for part in forecast.footprint.parts)
    yield "memory", f"{', '.join(parts)} MB"
    if forecast.limit is not None and forecast.limit.basis:
        yield "limit", forecast.limit.basis
    target = forecast.target
    if target.backend == "xnnpack" and target.core_clocks_hz:
        yield "threads", thread_words(target.core_clocks_hz)
    if any(speed.tokens_per_s for phase in answered.phases for speed in phase.speeds):
        yield "speed", "; ".join(_speed_words(answered))
    yield from (("note", note) for note in answered.notes)


def _speed_words(answered: Planned) -> Iterator[str]:
    """What limits each phase, and whether another unit may be the faster one."""
    bandwidth = answered.plan.target.bandwidth_bytes_per_s
    yield "learned from speeds published of phones; in 8 of 10 cases the true one is meant to lie in the range"
    if bandwidth:
        yield f"prefill is limited by arithmetic, decode by how fast memory is read ({bandwidth / 1e9:.3g} GB/s)"
    if any(map(_overlaps, answered.phases)):
        yield _OVERLAP


def _overlaps(phase: PhaseUnit) -> bool:
    """Whether another unit's range reaches into that of the fastest one."""
    best, *others = (each.tokens_per_s for each in phase.speeds)
    return best is not None and any(other is not None and other.high > best.low for other in others)
