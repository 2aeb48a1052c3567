"""Where a bundle is measured: device addresses, device facts, and the ``Transport`` protocol that runs jobs there."""

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
        InputError: E170, the text has another form.
    """
    kind, colon, name = text.partition(":")
    if kind in NEEDS_NAME and bool(NEEDS_NAME[kind]) == bool(name) == bool(colon):
        return Address(kind, name or None)
    raise InputError(f"{text!r} is not a device address.", where="--device", fix=f"give {FORMS}", code="E170")


@dataclass(frozen=True)
class DeviceFacts:
    """What a device says about itself at one moment; None means unavailable. Ranges are checked where JSON is read.

    Attributes:
        governor: the CPU's frequency governor.
        clock_mhz: current clock of the fastest core.
        load_average: runnable tasks, mean of the last minute.
        temperature_c: of the hottest thermal zone; on Android of the skin, else of the battery.
        product: what it is sold as.
        thermal_status: Android's, 0 (none) to 6 (shutdown).
        charging: whether it draws power from a cable.
        screen_on: whether its screen is lit.
        affinity: the cores that the measured process may use, like ``4-7``; None: all.
        executed_in: ``shell`` (a separate program) or ``app``.
        simulated: an emulator, whose times are not speeds.
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
    """The conditions of a measurement.

    Attributes:
        max_temperature_c: a job begins at or below this temperature, or where Android's thermal status is 0.
        heat_timeout_s: how long to wait for that.
        silence_s: a job that reports no event for this long, not counting the pauses and minutes it was asked for,
            counts as hung.
        keep: leave the pushed files on the device for the next run.
    """

    max_temperature_c: float = 37.0
    heat_timeout_s: float = 900.0
    silence_s: float = 600.0
    keep: bool = False

    def between_outputs_s(self, job: Mapping[str, Any]) -> float:
        """The longest time without output while a job runs; its pauses do not count as silence."""
        return self.silence_s + float(job["cool_down_s"])

    def whole_job_s(self, job: Mapping[str, Any]) -> float:
        """The longest that a job may take where only its end can be observed."""
        pauses_s = job["cool_down_s"] * (job["warmups"] + job["repetitions"])
        return float(self.silence_s + job["seconds"] + pauses_s)


class Transport(Protocol):
    """A device that can be measured. What was put on the device is removed by ``close``."""

    @property
    def address(self) -> Address:
        """The address of the device."""

    @property
    def simulated(self) -> bool:
        """Whether it is an emulator: its results are real, its times are not."""

    @property
    def whole_runs(self) -> bool:
        """Whether an app on the device measures the whole run, as one job of kind ``app`` that returns ``records``."""

    def facts(self) -> DeviceFacts:
        """Read the device's facts now."""

    def check(self, bundle: Bundle) -> None:
        """Refuse a bundle that cannot be measured there, then a device that is not ready; called before anything else.

        Raises:
            EdgecError: E427, E551, E541 to E546, E553 to E556.
        """

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run one job of ``edgec.runtime_py.bench.job`` in a separate process and return its result.

        Raises:
            EdgecError: the job's own error, E321 when the process died without one, E540 to E559 for devices, E566 when
                the transport was closed meanwhile.
        """

    def close(self) -> None:
        """End a job that runs in another thread and remove what was put on the device; never raises."""


Say = Callable[[str], None]


def connect(text: str, conditions: Conditions | None = None, say: Say = lambda text: None) -> Transport:
    """The transport for an address.

    Args:
        text: ``host | adb:SERIAL | ios:UDID | sim:UDID | qemu``.
        conditions: of the measurement; None for the defaults.
        say: called with what is being pushed, waited for or built.

    Raises:
        InputError: E170, not an address.
        ToolError: E540, E552, E572: the tool that reaches it is missing.
    """
    address = parse_address(text)
    module, name = TRANSPORTS[address.kind]
    made: Transport = getattr(import_module(module), name)(address, conditions or Conditions(), say)
    return made


TRANSPORTS = {
    "host": ("edgec.devices.host", "HostTransport"),
    "qemu": ("edgec.devices.qemu.transport", "QemuTransport"),
    "ios": ("edgec.apps.bench.transport", "iphone_transport"),
    "sim": ("edgec.apps.bench.transport", "simulator_transport"),
    "adb": ("edgec.devices.adb.transport", "AdbTransport"),
}
