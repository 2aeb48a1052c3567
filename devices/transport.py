"""Where a bundle runs: an address, what is known about the device, and one way to run a measuring job there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edgec.errors import InputError, ToolError

NEEDS_NAME = {"host": None, "adb": "SERIAL", "ios": "UDID", "sim": "UDID", "qemu": None}
FORMS = " | ".join(kind if name is None else f"{kind}:{name}" for kind, name in NEEDS_NAME.items())


@dataclass(frozen=True)
class Address:
    """A device: ``kind`` is one of host, adb, ios, sim, qemu; ``name`` its serial number or UDID."""

    kind: str
    name: str | None = None

    def __str__(self) -> str:
        return self.kind if self.name is None else f"{self.kind}:{self.name}"


def parse_address(text: str) -> Address:
    """Read ``host | adb:SERIAL | ios:UDID | sim:UDID | qemu``.

    Raises:
        InputError: E170, another form.
    """
    kind, colon, name = text.partition(":")
    if kind in NEEDS_NAME and bool(NEEDS_NAME[kind]) == bool(name) == bool(colon):
        return Address(kind, name or None)
    raise InputError(f"{text!r} is no device.", where="--device", fix=f"give {FORMS}", code="E170")


@dataclass(frozen=True)
class DeviceFacts:
    """What the device says about itself at one moment; None is unavailable.

    Attributes:
        governor: policy of the CPU's clock.
        clock_mhz: clock of the fastest core now.
        load_average: runnable tasks, mean of the last minute.
        temperature_c: the hottest thermal zone.
    """

    system: str
    cpu: str
    cores: int
    memory_bytes: int
    governor: str | None
    clock_mhz: float | None
    load_average: float | None
    temperature_c: float | None

    @property
    def machine(self) -> str:
        """What two runs must share to be comparable: the processor and how much of it there is."""
        return f"{self.cpu} x{self.cores}"


class Transport(Protocol):
    """A device that can be measured."""

    @property
    def address(self) -> Address:
        """Which one."""

    def facts(self) -> DeviceFacts:
        """Read them now."""

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run one job of ``edgec.runtime_py.bench_job`` in a process of its own; returns its result.

        Raises:
            EdgecError: the one the job ended with, or E321 when the process died without one.
        """


def connect(text: str) -> Transport:
    """The transport of an address.

    Raises:
        InputError: E170, no address.
        ToolError: E320, no transport for that kind is part of this version.
    """
    from edgec.devices.host import HostTransport

    address = parse_address(text)
    transports = {"host": HostTransport}
    if address.kind not in transports:
        raise ToolError(
            f"Devices of the kind {address.kind!r} cannot be measured by this version.",
            where=str(address),
            why=f"it has a transport for: {', '.join(transports)}",
            fix="use --device host, or a later version of edgec",
            code="E320",
        )
    return transports[address.kind]()
