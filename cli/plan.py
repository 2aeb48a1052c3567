"""`edgec plan` predicts size, memory and speed of a model on a phone, without the weights or the phone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edgec.devices.prediction.app_limit import AppLimit
    from edgec.devices.prediction.estimate import Range
    from edgec.devices.prediction.forecast import Plan
    from edgec.devices.prediction.unit_choice import PhaseUnit
    from edgec.exporter.resolve.planned import Planned, Question
    from edgec.terminal import WordTable

_UNAVAILABLE = "unavailable"
_VERDICTS: Mapping[str, str] = {
    "fits": "fits",
    "tight": "may not fit",
    "does not fit": "does not fit",
    "unknown": "whether it fits is unknown",
}


def plan(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="A model folder, a config.json or a hub id.")],
    target: Annotated[str | None, typer.Option("--target", "-t", help="A phone, see `edgec targets`.")] = None,
    *,
    phone_file: Annotated[
        Path | None, typer.Option("--phone", help="TOML file of a phone of your own, see `edgec help targets`.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="A recipe's name or file; default: that of the export.")] = None,
    weight_bits: Annotated[int | None, typer.Option(help="Bits of linear layers (16, 32: floats).")] = None,
    group_size: Annotated[int | None, typer.Option(help="Weights that share a scale; 0: one scale per row.")] = None,
    embedding_bits: Annotated[int | None, typer.Option(help="Bits of the embedding.")] = None,
    lm_head_bits: Annotated[int | None, typer.Option(help="Bits of the lm_head.")] = None,
    kv_bits: Annotated[int | None, typer.Option(help="Bits of cached keys and values: 4, 8, 16 or 32.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens the KV cache holds (those of the export), or an encoder reads.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="As for edgec export: text-generation plans the text part of a model with eyes.")
    ] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Prompt length for TTFT; 512, or the context.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="NAME=PEFT_FOLDER, as for edgec export.")] = None,
    measured: Annotated[
        list[Path] | None, typer.Option(help="What edgec bench --out wrote, to learn speeds from; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The plan as one JSON object.")] = False,
) -> None:
    """Estimate size, memory and speed of a model on a phone from its config alone.

    It plans what edgec export would make of the same MODEL, --target and options. Every figure is an estimate with its
    range; docs/plan.md says how far each can be trusted.

    Examples:
    edgec plan examples/tiny-stories --target iphone-16-pro

    edgec plan examples/tiny-stories --target pixel-8 --measured bench.jsonl

    edgec plan Qwen/Qwen3-0.6B --target galaxy-s24-ultra-cpu --recipe 8bit --context 8192

    edgec plan Qwen/Qwen3-0.6B --phone my-phone.toml --target cpu
    """
    from edgec.devices.phone_file import added_phone, chosen_target
    from edgec.exporter.resolve.planned import Question, answer
    from edgec.runtime_py.bench.observed import observations_of

    chosen = chosen_target(ctx.with_resource(added_phone(phone_file)), target)
    names = ("weight_bits", "group_size", "embedding_bits", "lm_head_bits", "kv_bits")
    bits = dict(zip(names, (weight_bits, group_size, embedding_bits, lm_head_bits, kv_bits), strict=True))
    known = observations_of(measured or ())
    question = Question(model, chosen, recipe, task, context, prompt_tokens, adapter or (), known, bits, phone_file)
    show(question, answer(question), json)


def show(question: Question, answered: Planned, as_json: bool) -> None:
    """Print a plan as one page, or as one JSON object with ``as_json``."""
    from edgec.terminal import make_console

    forecast = answered.plan
    if as_json:
        units = [asdict(phase) for phase in answered.phases]
        further = {"recipe": answered.recipe, "target_choice": answered.target_choice, "phase_units": units}
        commands = [command for command, _ in _commands(question, answered)]
        typer.echo(dumps({"schema_version": 1, **forecast.to_json(), **further, "commands": commands}, indent=2))
        return
    console = make_console()
    for paragraph in page(question, answered):
        console.print(paragraph, markup=False, highlight=False)


def page(question: Question, answered: Planned) -> Iterator[str | WordTable]:
    """Whether it fits and how fast it is, what to run next, what takes the memory, and what was assumed."""
    forecast = answered.plan
    target, verdict = forecast.target, _VERDICTS[forecast.verdict]
    named = f"{forecast.parameters / 1e6:,.1f} M parameters on {target.phone_name}, {target.unit}, {target.format}"
    if answered.refusal is not None:
        yield f"{named}: edgec export refuses it, {answered.refusal.what} [{answered.refusal.code}]"
    else:
        yield f"{named}: {verdict}"
    if answered.target_choice:
        yield answered.target_choice
    yield figures_table(forecast)
    yield from _limit_lines(forecast)
    yield f"recipe {answered.recipe}: {forecast.widths}"
    if not forecast.target.export_supported:
        yield "edgec makes nothing for this target yet"
    yield "next:"
    for command, gain in _commands(question, answered):
        yield f"  {command}" + (f"\n      {gain}" if gain else "")
    parts = (f"{part.name} {part.bytes / 1e6:,.1f}" for part in forecast.footprint.parts)
    yield f"memory, MB: {', '.join(parts)}"
    yield from (line for phase in answered.phases if (line := _phase_line(phase)))
    yield from (f"note: {note}" for note in forecast.notes)


def figures_table(forecast: Plan) -> WordTable:
    """The estimates with their ranges."""
    from edgec.terminal import WordTable

    table = WordTable("estimated", "low", "likely", "high", "range")
    for name, estimate, unit, divisor in _estimates(forecast):
        table.add_row(f"{name}, {unit}", *_cells(estimate, divisor))
    return table


def _estimates(forecast: Plan) -> Iterator[tuple[str, Range | None, str, float]]:
    prompt = f"{forecast.prompt_tokens} tokens"
    yield "artifact", forecast.footprint.size_bytes, "MB", 1e6
    if not forecast.context:
        yield "peak memory", forecast.footprint.peak_bytes, "MB", 1e6
        return
    yield f"peak memory, context {forecast.context}", forecast.footprint.peak_bytes, "MB", 1e6
    yield f"time to first token, {prompt}", forecast.speeds.ttft_ms, "ms", 1
    yield "prefill", forecast.speeds.prefill_tokens_per_s, "tokens/s", 1
    yield f"decode after {prompt}", forecast.speeds.decode_tokens_per_s, "tokens/s", 1


def _cells(estimate: Range | None, divisor: float) -> tuple[str, str, str, str]:
    if estimate is None:
        return "", _UNAVAILABLE, "", ""
    low, mid, high = (_rounded(value / divisor) for value in (estimate.low, estimate.mid, estimate.high))
    return low, mid, high, "bounds" if estimate.confidence is None else f"{estimate.confidence:.0%}"


def _rounded(value: float) -> str:
    """Three digits; whole numbers from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _limit_lines(forecast: Plan) -> Iterator[str]:
    """What the system grants one app, with and without iOS's entitlement, and the phone's memory."""
    target = forecast.target
    yield _limit_line("one app gets", forecast.limit, forecast.verdict)
    if target.os == "ios" and forecast.limit_entitled is not None:
        name = "with the increased-memory-limit entitlement"
        yield _limit_line(name, forecast.limit_entitled, forecast.verdict_entitled)
    if target.memory_bytes:
        share = forecast.footprint.peak_bytes.high / target.memory_bytes
        yield f"at most {max(share, 0.01):.0%} of the phone's memory ({_megabytes(target.memory_bytes)})"


def _limit_line(name: str, limit: AppLimit | None, verdict: str) -> str:
    if limit is None:
        return f"{name} an unknown share of the memory: {_VERDICTS[verdict]}"
    low, high = f"{limit.low_bytes / 1e6:,.0f}", _megabytes(limit.high_bytes)
    between = high if limit.low_bytes == limit.high_bytes else f"{low} to {high}"
    return f"{name} {between} ({limit.how}): {_VERDICTS[verdict]}"


def _megabytes(amount: int) -> str:
    return f"{amount / 1e6:,.0f} MB"


def _commands(question: Question, answered: Planned) -> Iterator[tuple[str, str]]:
    """Commands that make what was planned, what would fit better, and what would be faster, each with its gain."""
    forecast = answered.plan
    possible = forecast.target.export_supported and answered.refusal is None
    if possible and not any(question.bits.values()):
        yield _command(question, forecast.target.name if answered.target_choice else question.target), ""
    if possible and (smaller := forecast.smaller) is not None:
        gain = f"peak at most {_megabytes(int(smaller.peak_bytes.high))}: {_VERDICTS[smaller.verdict]}"
        yield _command(replace(question, recipe=None, context=None), question.target, smaller.asked.options), gain
    seen = set()
    for phase in answered.phases:
        best = phase.speeds[0]
        if phase.unit not in (None, forecast.target.unit) and best.target not in seen and best.tokens_per_s is not None:
            seen.add(best.target)
            low, high = (_rounded(end) for end in (best.tokens_per_s.low, best.tokens_per_s.high))
            yield _command(question, best.target), f"{phase.phase} {low} to {high} tokens/s on the {phase.unit}"


def _command(question: Question, target: str, options: Sequence[str] = ()) -> str:
    asked = {"--recipe": question.recipe, "--context": question.context, "--task": question.task}
    phone = [] if question.phone_file is None else ["--phone", str(question.phone_file)]
    words = ["edgec", "export", question.model, *phone, "--target", target]
    words += [str(word) for pair in asked.items() if pair[1] is not None for word in pair]
    words += [word for adapter in question.adapters for word in ("--adapter", adapter)]
    return join([*words, *options])


def _phase_line(phase: PhaseUnit) -> str:
    """The units' speeds in a phase and why; empty where none has an estimate."""
    if phase.unit is None:
        return ""
    known = [(each.unit, each.tokens_per_s) for each in phase.speeds if each.tokens_per_s]
    speeds = ", ".join(f"{unit} {speed.mid:,.0f} ({speed.low:,.0f} to {speed.high:,.0f})" for unit, speed in known)
    return f"{phase.phase} by unit, tokens/s: {speeds}; {phase.reason}"
