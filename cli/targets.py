"""`edgec targets` lists the phones that edgec knows, with figures and their sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from edgec.devices.targets import Target
    from edgec.terminal import WordTable

_UNKNOWN = "unknown"


def targets(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One target, with the source of every figure.")] = None,
    *,
    phone_file: Annotated[
        Path | None, typer.Option("--phone", help="TOML file of a phone of your own: check it, and show its figures.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Every target with every figure, as JSON.")] = False,
) -> None:
    """List the targets, or show one of them.

    Missing figures are printed as unknown.

    Examples:
    edgec targets

    edgec targets iphone-16-pro

    edgec targets --phone my-phone.toml
    """
    from edgec.devices.phone_file import added_phone, chosen_target
    from edgec.devices.targets import all_targets, load_target
    from edgec.terminal import make_console

    if (key := ctx.with_resource(added_phone(phone_file))) is not None:
        name = chosen_target(key, name)
    chosen = all_targets() if name is None else (load_target(name),)
    if json:
        typer.echo(dumps([_record(target) for target in chosen], indent=2))
        return
    make_console().print(details(chosen[0]) if name else overview(chosen))


def _record(target: Target) -> dict[str, Any]:
    from edgec.devices.prediction.oldest_fit import stands_for

    meaning = stands_for(target.name) if target.alias_of else None
    return {**asdict(target), "sources": dict(target.sources), "stands_for": meaning}


def overview(chosen: tuple[Target, ...]) -> WordTable:
    """The table of targets, one row per phone."""
    from edgec.devices.prediction.oldest_fit import stands_for
    from edgec.devices.targets import aliases
    from edgec.terminal import WordTable

    short = ", ".join(f"{alias} = {stands_for(alias)}" for alias in aliases())
    caption = f"Units: the first is the default, * = `edgec export` makes it today. Limits: of one app. {short}"
    table = WordTable(caption=caption)
    table.optional = ("bandwidth", "entitled", "app limit")
    table.add_column("phone", no_wrap=True)
    for head in ("chip", "memory", "app limit", "entitled", "bandwidth", "units"):
        table.add_column(head)
    for phone in dict.fromkeys(target.phone for target in chosen):
        table.add_row(*_row([target for target in chosen if target.phone == phone]))
    return table


def _row(same: list[Target]) -> tuple[str, ...]:
    first = same[0]
    starred = {target.unit: "*" * target.export_supported for target in same}
    limits = [_scaled(value, 1e9, "GB") for value in (first.app_limit_bytes, first.app_limit_entitled_bytes)]
    return (
        first.phone,
        first.chip or _UNKNOWN,
        _scaled(first.memory_bytes, 2**30, "GiB"),
        *limits,
        _bandwidth(first),
        " ".join(f"{unit}{star}" for unit, star in starred.items()),
    )


def _bandwidth(target: Target) -> str:
    """The memory's; a range where it is not known which of several kinds the phone has."""
    highest = _scaled(target.bandwidth_bytes_per_s, 1e9, "GB/s")
    low = target.bandwidth_low_bytes_per_s
    return highest if low is None else f"{_scaled(low, 1e9, 'GB/s').removesuffix(' GB/s')} to {highest}"


def details(target: Target) -> WordTable:
    """The table of one target: every figure with its source."""
    from edgec.terminal import WordTable

    title = f"{target.name}: {target.phone_name}, {target.unit}, {target.format} through {target.backend}"
    table = WordTable("", "value", "source", title=title, caption=_note(target))
    for field, value in _figures(target):
        table.add_row(field, value, target.source(field) or "")
    bits = ", ".join(map(str, target.weight_bits))
    table.add_row("weight bits", bits, "")
    table.add_row("edgec export", "supported" if target.export_supported else "not yet: plan only", "")
    return table


def _note(target: Target) -> str | None:
    """The meaning of a short name, or None."""
    from edgec.devices.prediction.oldest_fit import stands_for

    if target.alias_of is None:
        return None
    meaning = stands_for(target.name)
    return f"{target.name} = {meaning}" + f"; the figures are those of {target.alias_of}" * (meaning != target.alias_of)


def _figures(target: Target) -> Iterator[tuple[str, str]]:
    yield "chip", target.chip_name or _UNKNOWN
    yield "memory_bytes", _scaled(target.memory_bytes, 2**30, "GiB")
    for field in ("app_limit_bytes", "app_limit_entitled_bytes"):
        yield field, _scaled(getattr(target, field), 1e9, "GB")
    yield "bandwidth_bytes_per_s", _bandwidth(target)
    clocks = (f"{cores} x {hertz / 1e9:.2f} GHz" for cores, hertz in target.core_clocks_hz or ())
    yield "core_clocks_hz", ", ".join(clocks) or _UNKNOWN
    yield (
        "instruction_set",
        _UNKNOWN if target.instruction_set is None else ", ".join(target.instruction_set) or "Armv8.0",
    )
    yield "gpu", target.gpu or _UNKNOWN
    yield "gpu_fp32_flops_per_s", _scaled(target.gpu_fp32_flops_per_s, 1e12, "TFLOPS, fp32")
    yield "npu_ops_per_s", _scaled(target.npu_ops_per_s, 1e12, "TOPS")
    yield "released", target.released or _UNKNOWN
    yield "newest_os", target.newest_os or _UNKNOWN


def _scaled(value: float | None, divisor: float, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value / divisor:.3g} {unit}"
