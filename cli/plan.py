"""`edgec plan` predicts size, memory and speed of a model on a phone, without the weights or the phone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from edgec.devices.prediction.estimate import Range
    from edgec.devices.prediction.forecast import Plan
    from edgec.devices.prediction.unit_choice import PhaseUnit
    from edgec.terminal import WordTable

_UNAVAILABLE = "unavailable"


def plan(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="A model folder, a config.json or a hub id.")],
    target: Annotated[str | None, typer.Option("--target", "-t", help="A phone, see `edgec targets`.")] = None,
    *,
    phone_file: Annotated[
        Path | None, typer.Option("--phone", help="TOML file of a phone of your own, see `edgec help targets`.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe's name or file (default: an adapted model's own), without its rules.")
    ] = None,
    weight_bits: Annotated[int | None, typer.Option(help="Bits of linear layers (16, 32: floats).")] = None,
    group_size: Annotated[int | None, typer.Option(help="Weights that share a scale; 0: one scale per row.")] = None,
    embedding_bits: Annotated[int | None, typer.Option(help="Bits of the embedding.")] = None,
    lm_head_bits: Annotated[int | None, typer.Option(help="Bits of the lm_head.")] = None,
    kv_bits: Annotated[int | None, typer.Option(help="Bits of cached keys and values: 4, 8, 16 or 32.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens the KV cache holds (the model's own, at most 4096), or an encoder reads.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="As for edgec export: text-generation plans the text part of a model with eyes.")
    ] = None,
    prompt_tokens: Annotated[int | None, typer.Option(help="Prompt length for TTFT; 512, or the context.")] = None,
    adapter: Annotated[list[str] | None, typer.Option(help="NAME=PEFT_FOLDER, as for edgec export.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The plan as one JSON object.")] = False,
) -> None:
    """Estimate size, memory and speed of a model on a phone from its config alone.

    Every figure is an estimate with its range; docs/plan.md says how far each can be trusted.

    Examples:
    edgec plan examples/tiny-stories --target iphone-16-pro

    edgec plan Qwen/Qwen3-0.6B --target galaxy-s24-ultra-cpu --recipe 8bit --context 8192

    edgec plan Qwen/Qwen3-0.6B --phone my-phone.toml --target cpu
    """
    from edgec.backends.forms import form_of
    from edgec.devices.phone_file import added_phone, chosen_target
    from edgec.devices.prediction.unit_choice import unit_choice
    from edgec.devices.targets import load_target
    from edgec.exporter.resolve.adapters import with_adapters
    from edgec.exporter.resolve.target_choice import plan_target
    from edgec.exporter.resolve.widths import model_widths, override_widths
    from edgec.exporter.sources.parameters import read_config
    from edgec.exporter.sources.shapes import model_shape

    phone = load_target(chosen_target(ctx.with_resource(added_phone(phone_file)), target))
    names = ("weight_bits", "group_size", "embedding_bits", "lm_head_bits", "kv_bits")
    given = dict(zip(names, (weight_bits, group_size, embedding_bits, lm_head_bits, kv_bits), strict=True))
    widths = override_widths(model_widths(model, recipe, phone, task), **given)
    folder, form = Path(model) if Path(model).is_dir() else None, form_of(phone)
    shape = model_shape(read_config(model), form=form, task=task, context=context, folder=folder)
    shape = with_adapters(shape, adapter or (), form)
    forecast, choice = plan_target(shape, phone, widths, context=context, prompt_tokens=prompt_tokens)
    show(forecast, json, choice, unit_choice(shape, forecast) if forecast.context else ())


def show(forecast: Plan, as_json: bool, choice: str, phases: Sequence[PhaseUnit]) -> None:
    """Print a plan as tables or as one JSON object.

    Args:
        forecast: the plan.
        as_json: one JSON object instead of tables.
        choice: why this phone was chosen, where a family was named.
        phases: the units proposed for prefill and decode.
    """
    from edgec.terminal import make_console

    if as_json:
        units = [asdict(phase) for phase in phases]
        typer.echo(dumps({**forecast.to_json(), "target_choice": choice, "phase_units": units}, indent=2))
        return
    console, target = make_console(), forecast.target
    console.print(
        *([choice] if choice else []),
        f"{forecast.parameters / 1e6:,.1f} M parameters on {target.phone_name}, {target.unit}, {target.format}",
        summary_table(forecast),
        str(forecast.widths),
        parts_table(forecast),
        *(_phase_line(phase, forecast.notes) for phase in phases),
        sep="\n",
    )
    console.print(*closing_lines(forecast), sep="\n")


def summary_table(forecast: Plan) -> WordTable:
    """The estimates with their ranges and how far each can be trusted."""
    from edgec.terminal import WordTable

    table = WordTable("", "low", "estimate", "high", "how")
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
    trust = "bounds" if estimate.confidence is None else f"{estimate.confidence:.0%} range"
    return low, mid, high, f"{estimate.how}, {trust}"


def _rounded(value: float) -> str:
    """Three digits; whole numbers from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _phase_line(phase: PhaseUnit, notes: Sequence[str]) -> str:
    """The unit chosen for a phase, the estimated speed of each unit, and the reasons that ``notes`` do not give."""
    known = [(speed.unit, speed.tokens_per_s) for speed in phase.speeds if speed.tokens_per_s]
    speeds = ", ".join(f"{unit} {speed.mid:,.0f} ({speed.low:,.0f} to {speed.high:,.0f})" for unit, speed in known)
    told = f"{phase.unit}, estimated tokens/s: {speeds}" if phase.unit else _UNAVAILABLE
    reasons = [reason for reason in phase.reason.split("; ") if reason not in notes]
    return "; ".join((f"{phase.phase} on: {told}", *reasons))


def parts_table(forecast: Plan) -> WordTable:
    """The parts of the memory, the largest first."""
    from edgec.terminal import WordTable

    table = WordTable("takes memory", "MB")
    for part in forecast.footprint.parts:
        table.add_row(part.name, f"{part.bytes / 1e6:,.1f}")
    return table


def closing_lines(forecast: Plan) -> Iterator[str]:
    """The verdict, a smaller plan that would fit, and notes on the estimates."""
    target = forecast.target
    yield _verdict_line("app limit", target.app_limit_bytes, forecast.verdict)
    if target.os == "ios":
        name = "with the increased-memory-limit entitlement"
        yield _verdict_line(name, target.app_limit_entitled_bytes, forecast.verdict_entitled)
    if target.memory_bytes:
        share = forecast.footprint.peak_bytes.high / target.memory_bytes
        yield f"at most {max(share, 0.01):.0%} of the phone's memory ({_megabytes(target.memory_bytes)})"
    if forecast.smaller:
        smaller = forecast.smaller
        peak = f"peak at most {smaller.peak_bytes.high / 1e6:,.0f} MB"
        context = f", context {smaller.context}" if smaller.context else ""
        yield f"smaller: {smaller.widths}{context} ({peak}): {smaller.verdict}"
    yield from (f"note: {note}" for note in forecast.notes)


def _verdict_line(name: str, limit: int | None, verdict: str) -> str:
    known = limit is not None or verdict != "unknown"
    return f"{name} {_megabytes(limit)}: {verdict if known else 'whether it fits is unknown'}"


def _megabytes(amount: int | None) -> str:
    return "unknown" if amount is None else f"{amount / 1e6:,.0f} MB"
