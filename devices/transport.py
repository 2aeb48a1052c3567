"""Where a bundle is measured: an address, what is known about the device, and one way to run a measuring job there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from edgec.devices.answers import AnswerCount, Bytes, Celsius, Load, Megahertz, Percent, PlainText, ThermalStatus
from edgec.errors import InputError

if TYPE_CHECKING:
    from edgec.bundle.folder import Bundle

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
    """What the device says about itself at one moment; None is unavailable. Ranges are checked where JSON is read.

    Attributes:
        governor: policy of the CPU's clock.
        clock_mhz: clock of the fastest core now.
        load_average: runnable tasks, mean of the last minute.
        temperature_c: the hottest thermal zone; on Android the skin's, else the battery's.
        product: what it is sold as.
        thermal_status: Android's, 0 (none) to 6 (shutdown).
        charging: whether it draws power from a cable.
        screen_on: whether its screen is lit.
        affinity: the cores that the measured process may use, like ``4-7``; None: all.
        executed_in: ``shell`` (a program of its own) or ``app``.
        simulated: an emulator; its times are no speed.
    """

    system: PlainText
    cpu: PlainText
    cores: AnswerCount
    memory_bytes: Bytes
    governor: PlainText | None
    clock_mhz: Megahertz | None
    load_average: Load | None
    temperature_c: Celsius | None
    product: PlainText | None = None
    thermal_status: ThermalStatus | None = None
    battery_percent: Percent | None = None
    charging: bool | None = None
    screen_on: bool | None = None
    affinity: PlainText | None = None
    executed_in: Literal["shell", "app"] = "shell"
    simulated: bool = False

    @property
    def machine(self) -> str:
        """What two runs must share to be comparable: the processor and how much of it there is."""
        return f"{self.cpu} x{self.cores}"


@dataclass(frozen=True)
class Conditions:
    """Under what a device is measured.

    Attributes:
        max_temperature_c: a job begins at or below it, or where Android's thermal status is 0.
        heat_timeout_s: how long to wait for that.
        silence_s: a running job that gives no event for so long, beside the pauses and minutes it was asked for, counts
            as hung.
        keep: leave the pushed files on the device, for the next run.
    """

    max_temperature_c: float = 37.0
    heat_timeout_s: float = 900.0
    silence_s: float = 600.0
    keep: bool = False

    def between_outputs_s(self, job: Mapping[str, Any]) -> float:
        """The longest time without output while a job runs: its pauses are none of its silence."""
        return self.silence_s + float(job["cool_down_s"])

    def whole_job_s(self, job: Mapping[str, Any]) -> float:
        """The longest a job may take where only its end is seen."""
        pauses_s = job["cool_down_s"] * (job["warmups"] + job["repetitions"])
        return float(self.silence_s + job["seconds"] + pauses_s)


class Transport(Protocol):
    """A device that can be measured. What was put on the device is removed by ``close``."""

    @property
    def address(self) -> Address:
        """Which one."""

    @property
    def simulated(self) -> bool:
        """An emulator: what it computes is real, the time it takes is not."""

    @property
    def whole_runs(self) -> bool:
        """An app on the device measures the whole run: the one job is of the kind ``app``, its result ``records``."""

    def facts(self) -> DeviceFacts:
        """Read them now."""

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that cannot be measured there, then a device that is not ready. Called before all others.

        Raises:
            EdgecError: E427, E551, E541 to E546, E553 to E556.
        """

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run one job of ``edgec.runtime_py.bench.job`` in a process of its own; returns its result.

        Raises:
            EdgecError: the one the job ended with, E321 when the process died without one, E540 to E559 for devices,
                E566, it was closed meanwhile.
        """

    def close(self) -> None:
        """End a job that runs in another thread, and remove what was put on the device; never raises."""


Say = Callable[[str], None]


def connect(text: str, conditions: Conditions | None = None, say: Say = lambda text: None) -> Transport:
    """The transport of an address.

    Args:
        text: ``host | adb:SERIAL | ios:UDID | sim:UDID | qemu``.
        conditions: under what it is measured.
        say: told what is being pushed, waited for or built.

    Raises:
        InputError: E170, no address.
        ToolError: E540, E552, E572: the tool that reaches it is missing.
    """
    address = parse_address(text)
    module, name = TRANSPORTS[address.kind]
    made: Transport = getattr(import_module(module), name)(address, conditions or Conditions(), say)
    return made


TRANSPORTS = {
    "host": ("edgec.devices.host", "HostTransport"),
    "qemu": ("edgec.devices.qemu.transport", "QemuTransport"),
    "ios": ("edgec.devices.apple.transport", "iphone_transport"),
    "sim": ("edgec.devices.apple.transport", "simulator_transport"),
    "adb": ("edgec.devices.adb.transport", "AdbTransport"),
}
