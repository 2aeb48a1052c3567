"""Targets as data: phone x unit x format, read from the TOML files next to this module.

A name is ``PHONE[-UNIT[-FORMAT]]`` (``iphone-16-pro``, ``iphone-16-pro-cpu``, ``iphone-16-pro-npu-aimodel``) or an
alias (``iphone``, ``android-cpu``, ``host``). What a file does not state is unknown, and is None here.
"""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from edgec.bundle.layouts import DEFAULT_LAYOUT, LAYOUTS
from edgec.devices.target_names import meant, nearest, variants
from edgec.errors import InputError

_HERE = Path(__file__).parent
_THIS_MACHINE = "this-machine"
DEFAULT_TARGET = "host"


@dataclass(frozen=True)
class Target:
    """What a bundle is made for: a phone, one of its compute units, and a format.

    Attributes:
        name: what the user calls it; an alias keeps its own name.
        phone: key of the phone in ``phones/*.toml``.
        chip: key of the chip in ``chips/*.toml``; None when unknown.
        unit: ``cpu``, ``gpu`` or ``npu``.
        format: ``pte``, ``mlpackage``, ``aimodel``, ``qnn``, ``onnx``, ``gguf``, ``litertlm`` or ``tflite``.
        backend: the folder under ``backends/`` that lowers to it.
        weight_bits: the widths the format can hold; 16 and 32 are floats.
        export_supported: whether ``edgec export`` makes it today.
        app_limit_bytes: memory that the system grants one app without an entitlement.
        app_limit_entitled_bytes: the same with the increased-memory-limit entitlement (iOS).
        bandwidth_low_bytes_per_s: with the slowest memory that the chip takes, where the phone's is not known; then
            ``bandwidth_bytes_per_s`` is with the fastest.
        kind: ``phone``, ``board`` or ``laptop`` (also desktops); None where the chip is unknown.
        core_clocks_hz: (cores, clock) per cluster, fastest first.
        gpu_matrix_units: each core of the GPU has matrix units.
        driver_limited: units that read far less than the memory can deliver, whatever the model.
        released: year and month of its launch.
        newest_os: the newest system that the phone is known to run.
        hexagon: generation of Qualcomm's NPU, e.g. ``V79``.
        soc_model: Qualcomm's number of the chip.
        sources: field name -> where its figure was published.
        alias_of: the full name that an alias stands for.
        layout: by whose names the artifact goes; no part of the name.
    """

    name: str
    phone: str
    phone_name: str
    os: str
    unit: str
    format: str
    backend: str
    weight_bits: tuple[int, ...]
    export_supported: bool
    chip: str | None = None
    chip_name: str | None = None
    vendor: str | None = None
    family: str | None = None
    kind: str | None = None
    memory_bytes: int | None = None
    app_limit_bytes: int | None = None
    app_limit_entitled_bytes: int | None = None
    bandwidth_bytes_per_s: float | None = None
    bandwidth_low_bytes_per_s: float | None = None
    core_clocks_hz: tuple[tuple[int, float], ...] | None = None
    instruction_set: tuple[str, ...] | None = None
    gpu: str | None = None
    gpu_cores: int | None = None
    gpu_matrix_units: bool = False
    gpu_fp32_flops_per_s: float | None = None
    npu_ops_per_s: float | None = None
    driver_limited: tuple[str, ...] = ()
    hexagon: str | None = None
    soc_model: int | None = None
    released: str | None = None
    newest_os: str | None = None
    sources: tuple[tuple[str, str], ...] = ()
    alias_of: str | None = None
    layout: str = DEFAULT_LAYOUT

    @property
    def processor(self) -> str:
        """The family of its CPU, as ``platform.machine`` names it: this machine's own, or that of every phone."""
        return platform.machine() if self.phone == _THIS_MACHINE else "arm64"

    def source(self, field: str) -> str | None:
        """Where a figure was published, or None when the figure is unknown."""
        return dict(self.sources).get(field)


def load_target(name: str) -> Target:
    """Look up a target by its name or alias.

    A name may be written as people do: ``Galaxy S24 Ultra`` is ``galaxy-s24-ultra``.

    Raises:
        InputError: E163, no such target; the fix names the nearest ones.
    """
    name = known_name(name)
    full = aliases().get(name, name)
    target = _by_name().get(full)
    if target is None:
        raise _unknown(name)
    return target if full == name else replace(target, name=name, alias_of=full)


def with_layout(target: Target, layout: str) -> Target:
    """The target with an artifact in a layout, which its format can have."""
    return replace(target, layout=layout, backend=LAYOUTS[layout].backends.get(target.format, target.backend))


def known_name(name: str) -> str:
    """The name of a target or alias that a name written by a user means; the name itself where there is none."""
    if name in _by_name() or name in aliases():
        return name
    return meant(name, [*aliases(), *_by_name()], {table["name"]: key for key, table in phones().items()}) or name


def _unknown(name: str) -> InputError:
    several = variants(name, phones())
    near = several or nearest(name, [*aliases(), *phones()], list(_by_name()))
    offer = f"did you mean {', '.join(near)}? " * bool(near) + "`edgec targets` lists them all"
    why = "that phone is sold with several chips" * bool(several)
    return InputError(f"unknown target '{name[:60]}'", "--target", why, offer, "E163")


def all_targets() -> tuple[Target, ...]:
    """Every phone x unit x format once, under its shortest name; aliases are in :func:`aliases`."""
    return tuple(dict.fromkeys(_by_name().values()))


@cache
def aliases() -> Mapping[str, str]:
    """Alias -> full name."""
    return {str(name): str(full) for name, full in _read(_HERE / "aliases.toml").items()}


@cache
def chips() -> Mapping[str, Mapping[str, Any]]:
    """Chip key -> its table, as written in ``chips/*.toml``."""
    return _merged("chips")


@cache
def phones() -> Mapping[str, Mapping[str, Any]]:
    """Phone key -> its table, as written in ``phones/*.toml``, and the phones of :func:`phone_known`."""
    return {**_merged("phones"), **_ADDED}


@contextmanager
def phone_known(key: str, table: Mapping[str, Any]) -> Iterator[None]:
    """Know one more phone while the context lasts.

    Args:
        key: its name, which no other phone has.
        table: as in ``phones/*.toml``, checked.
    """
    _ADDED[key] = table
    _forget_phones()
    try:
        yield
    finally:
        del _ADDED[key]
        _forget_phones()


_ADDED: dict[str, Mapping[str, Any]] = {}


def _forget_phones() -> None:
    phones.cache_clear()
    _by_name.cache_clear()


@cache
def _by_name() -> Mapping[str, Target]:
    return {name: target for key in phones() for name, target in _targets_of(key)}


def _targets_of(phone: str) -> Iterator[tuple[str, Target]]:
    """Pairs of name and target for a phone; short names leave out the default unit or format."""
    for position, unit in enumerate(phones()[phone]["units"]):
        for rank, row in enumerate(formats_of(phones()[phone]["os"], unit)):
            names = [f"{phone}-{unit}-{row['format']}"]
            names += [f"{phone}-{unit}"] * (rank == 0) + [phone] * (rank == 0 and position == 0)
            target = _build(names[-1], phone, row)
            yield from ((name, target) for name in names)


def formats_of(system: str, unit: str) -> list[Mapping[str, Any]]:
    """The rows of ``units.toml`` for a unit of an operating system, its default format first."""
    rows = _read(_HERE / "units.toml")["unit"]
    return [row for row in rows if row["os"] == system and row["unit"] == unit]


def _build(name: str, phone: str, row: Mapping[str, Any]) -> Target:
    table = phones()[phone]
    chip = chips().get(table.get("chip", ""), {})
    if "bandwidth_bytes_per_s" in table:
        chip = {key: value for key, value in chip.items() if key != "bandwidth_low_bytes_per_s"}
    figures = {key: _frozen(value) for key, value in {**chip, **table}.items() if key in _FIGURES}
    return Target(
        name=name,
        phone=phone,
        phone_name=table["name"],
        os=table["os"],
        unit=row["unit"],
        format=row["format"],
        backend=row["backend"],
        weight_bits=tuple(row["weight_bits"]),
        export_supported=row.get("export_supported", False),
        chip=table.get("chip"),
        chip_name=chip.get("name"),
        sources=tuple({**chip.get("sources", {}), **table.get("sources", {})}.items()),
        **figures,
    )


_FIGURES = (
    "vendor",
    "family",
    "kind",
    "memory_bytes",
    "app_limit_bytes",
    "app_limit_entitled_bytes",
    "bandwidth_bytes_per_s",
    "bandwidth_low_bytes_per_s",
    "core_clocks_hz",
    "instruction_set",
    "gpu",
    "gpu_cores",
    "gpu_matrix_units",
    "gpu_fp32_flops_per_s",
    "npu_ops_per_s",
    "driver_limited",
    "hexagon",
    "soc_model",
    "released",
    "newest_os",
)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _merged(folder: str) -> Mapping[str, Mapping[str, Any]]:
    return {key: table for path in sorted((_HERE / folder).glob("*.toml")) for key, table in _read(path).items()}


@cache
def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        return tomllib.load(stream)
