"""What an Android phone reports about itself, read in one shell call: properties, battery, heat, clocks, screen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, islice

from edgec.devices import answers
from edgec.devices.adb.faults import unreadable
from edgec.devices.adb.link import AdbLink
from edgec.devices.answers import number, plain
from edgec.devices.transport import DeviceFacts

_MARK = "=edgec="
_PROPERTIES = (
    "ro.product.model",
    "ro.product.manufacturer",
    "ro.soc.manufacturer",
    "ro.soc.model",
    "ro.board.platform",
    "ro.build.version.release",
    "ro.build.version.sdk",
    "ro.product.cpu.abi",
    "ro.boot.qemu",
    "ro.kernel.qemu",
)
_PARTS = {
    "battery": "dumpsys battery",
    "thermal": "dumpsys thermalservice",
    "power": "dumpsys power | grep -E 'mWakefulness='",
    "cores": "cat /sys/devices/system/cpu/present",
    "memory": "grep MemTotal /proc/meminfo",
    "load": "cat /proc/loadavg",
    "governor": "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor 2>/dev/null | sort -u",
    "clock": "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq 2>/dev/null | sort -n | tail -n 1",
    **{name: f"getprop {name}" for name in _PROPERTIES},
}
SCRIPT = "\n".join(f"echo '{_MARK}{name}'; {command}" for name, command in _PARTS.items()) + "\ntrue"
_MOST_PART, _MOST_SENSORS = 64 * 1024, 64
_BATTERY_TENTHS = 10
# `dumpsys thermalservice` prints what was cached at the last change first; cooling devices have types and values, too.
_NOW = "Current temperatures from HAL:"
_SKIN = re.compile(r"Temperature\{mValue=([^,{}\s]{1,40}), mType=3,")


@dataclass(frozen=True)
class NumberPattern:
    """How to read a number from the answer: the part, the pattern around the number, and its plausible range."""

    part: str
    pattern: str
    low: float
    high: float


READINGS = {
    "skin temperature": NumberPattern("thermal", _SKIN.pattern, answers.COLDEST_C, answers.HOTTEST_C),
    "thermal status": NumberPattern("thermal", r"^Thermal Status: (\S{1,40})", 0, answers.HOTTEST_STATUS),
    "battery temperature": NumberPattern(
        "battery", r"^[ \t]{0,40}temperature: {0,9}(\S{1,40})", 10 * answers.COLDEST_C, 10 * answers.HOTTEST_C
    ),
    "battery level": NumberPattern("battery", r"^[ \t]{0,40}level: {0,9}(\S{1,40})", 0, 100),
    "memory": NumberPattern("memory", r"MemTotal:[ \t]{0,40}(\S{1,40})", 1, answers.MOST_BYTES / 1024),
    "load": NumberPattern("load", r"^(\S{1,40})", 0, answers.MOST_TASKS),
    "clock": NumberPattern("clock", r"^(\S{1,40})$", 1, 1e3 * answers.FASTEST_MHZ),
}


@dataclass(frozen=True)
class PhoneState:
    """The phone's answers by part; a part that the phone does not know is empty."""

    parts: dict[str, str]

    def text(self, part: str) -> str:
        """The answer to one part of the script."""
        return self.parts.get(part, "")[:_MOST_PART].strip()

    def line(self, part: str) -> str:
        """The answer to one part of the script, as one printable line."""
        return plain(self.text(part))

    def number(self, name: str) -> float | None:
        """The value of one of ``READINGS``; None where the phone does not report it, or reports it implausibly."""
        reading, said = READINGS[name], self._said(name)
        return None if said is None else number(said, reading.low, reading.high)

    @property
    def faults(self) -> tuple[str, ...]:
        """The readings that are not numbers, or that lie outside their plausible range."""
        said = {name: self._said(name) for name in READINGS}
        return tuple(
            f"its {name} is given as {text!r}"
            for name, text in said.items()
            if text is not None and self.number(name) is None
        )

    def _said(self, name: str) -> str | None:
        reading = READINGS[name]
        text = self.text(reading.part)
        _, _, current = text.partition(_NOW)
        matches = chain(*(re.finditer(reading.pattern, place, re.MULTILINE) for place in (current, text)))
        said = [match[1] for match in islice(matches, _MOST_SENSORS)]
        good = (each for each in said if number(each, reading.low, reading.high) is not None)
        return next(good, next(iter(said), None))

    @property
    def abi(self) -> str:
        """The phone's ABI, like ``arm64-v8a``."""
        return self.line("ro.product.cpu.abi")

    @property
    def simulated(self) -> bool:
        """Whether the phone is an emulator."""
        return "1" in (self.text("ro.boot.qemu"), self.text("ro.kernel.qemu"))

    @property
    def temperature_c(self) -> float | None:
        """Skin temperature as Android sees it (type 3), current or else cached; without one, the battery's."""
        skin, tenths = self.number("skin temperature"), self.number("battery temperature")
        return skin if skin is not None else None if tenths is None else tenths / _BATTERY_TENTHS

    @property
    def thermal_status(self) -> int | None:
        """Android's thermal status, 0 (none) to 6 (shutdown)."""
        status = self.number("thermal status")
        return None if status is None else int(status)

    @property
    def cores(self) -> int:
        """Number of CPU cores, from a range like ``0-7``; 1 where the answer has another form."""
        cores = re.fullmatch(r"0-(\d{1,3})", self.text("cores"))
        return int(cores[1]) + 1 if cores else 1

    def facts(self) -> DeviceFacts:
        """The state as ``DeviceFacts``."""
        memory_kib, clock_khz, power = self.number("memory"), self.number("clock"), self.text("power")
        release, sdk = self.line("ro.build.version.release"), self.line("ro.build.version.sdk")
        chip = f"{self.line('ro.soc.manufacturer')} {self.line('ro.soc.model')}".strip()
        product = f"{self.line('ro.product.manufacturer')} {self.line('ro.product.model')}".strip()
        return DeviceFacts(
            system=f"Android {release or 'unknown'} (SDK {sdk or 'unknown'})",
            cpu=chip or self.line("ro.board.platform") or "unknown",
            cores=self.cores,
            memory_bytes=int((memory_kib or 0) * 1024),
            governor=", ".join(self.line("governor").split()) or None,
            clock_mhz=None if clock_khz is None else clock_khz / 1e3,
            load_average=self.number("load"),
            temperature_c=self.temperature_c,
            product=product or None,
            thermal_status=self.thermal_status,
            battery_percent=self.number("battery level"),
            charging=self._charging(),
            screen_on="mWakefulness=Awake" in power if "mWakefulness=" in power else None,
            simulated=self.simulated,
        )

    def _charging(self) -> bool | None:
        supplies = re.findall(r"^[ \t]{0,40}\w{1,40} powered: (true|false)", self.text("battery"), re.MULTILINE)
        return "true" in supplies if supplies else None


def read_state(link: AdbLink) -> PhoneState:
    """Read the phone's state.

    Raises:
        InputError: E541 to E544; E575, the answer has another form.
    """
    parts = read_parts(link.shell(SCRIPT).stdout)
    missing = [name for name in _PARTS if name not in parts]
    if missing:
        raise unreadable(link.where, f"it was asked for {len(_PARTS)} facts and gave nothing for {missing[0]!r}")
    return PhoneState(parts)


def read_parts(output: str) -> dict[str, str]:
    """Split the output of ``SCRIPT`` into its parts, by name."""
    parts = output.split(_MARK)[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}
