"""What a phone says about itself: properties, battery, heat, clocks, screen, in one shell call."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgec.devices.adb.link import Link
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
_BATTERY_TENTHS = 10
# `dumpsys thermalservice` prints what was cached at the last change first; cooling devices have types and values, too.
_NOW = "Current temperatures from HAL:"
_SKIN = re.compile(r"Temperature\{mValue=([\d.]+), mType=3,")


@dataclass(frozen=True)
class PhoneState:
    """The answers by part; a part that the phone does not know is empty."""

    parts: dict[str, str]

    def text(self, part: str) -> str:
        """One answer."""
        return self.parts.get(part, "").strip()

    def number(self, part: str, pattern: str) -> float | None:
        """The number behind a pattern's first group, or None."""
        found = re.search(pattern, self.text(part), re.MULTILINE)
        return float(found[1]) if found else None

    @property
    def abi(self) -> str:
        """Like ``arm64-v8a``."""
        return self.text("ro.product.cpu.abi")

    @property
    def simulated(self) -> bool:
        """An emulator."""
        return "1" in (self.text("ro.boot.qemu"), self.text("ro.kernel.qemu"))

    @property
    def temperature_c(self) -> float | None:
        """The skin's, as Android sees it (type 3): read now, else the last one it kept; else the battery's."""
        _, _, current = self.text("thermal").partition(_NOW)
        found = _SKIN.search(current) or _SKIN.search(self.text("thermal"))
        skin = float(found[1]) if found else None
        tenths = self.number("battery", r"^\s*temperature:\s*(\d+)")
        return skin if skin is not None else None if tenths is None else tenths / _BATTERY_TENTHS

    @property
    def thermal_status(self) -> int | None:
        """0 (none) to 6 (shutdown)."""
        found = self.number("thermal", r"^Thermal Status: (\d)")
        return None if found is None else int(found)

    def facts(self) -> DeviceFacts:
        """The record of it."""
        cores = self.number("cores", r"^0-(\d+)$")
        memory_kib = self.number("memory", r"MemTotal:\s*(\d+)")
        clock_khz = self.number("clock", r"^(\d+)$")
        release, sdk = self.text("ro.build.version.release"), self.text("ro.build.version.sdk")
        chip = f"{self.text('ro.soc.manufacturer')} {self.text('ro.soc.model')}".strip() or self.text(
            "ro.board.platform"
        )
        product = f"{self.text('ro.product.manufacturer')} {self.text('ro.product.model')}".strip()
        return DeviceFacts(
            system=f"Android {release or 'unknown'} (SDK {sdk or 'unknown'})",
            cpu=chip or "unknown",
            cores=1 if cores is None else int(cores) + 1,
            memory_bytes=int((memory_kib or 0) * 1024),
            governor=", ".join(self.text("governor").split()) or None,
            clock_mhz=None if clock_khz is None else clock_khz / 1e3,
            load_average=self.number("load", r"^([\d.]+)"),
            temperature_c=self.temperature_c,
            product=product or None,
            thermal_status=self.thermal_status,
            battery_percent=self.number("battery", r"^\s*level:\s*(\d+)"),
            charging=self._charging(),
            screen_on=_flag(self.text("power"), "mWakefulness=", "Awake"),
            simulated=self.simulated,
        )

    def _charging(self) -> bool | None:
        found = re.findall(r"^\s*\w+ powered: (true|false)", self.text("battery"), re.MULTILINE)
        return "true" in found if found else None


def _flag(text: str, name: str, value: str) -> bool | None:
    return f"{name}{value}" in text if name in text else None


def read_state(link: Link) -> PhoneState:
    """Ask the phone.

    Raises:
        InputError: E541 to E544.
    """
    return PhoneState(read_parts(link.shell(SCRIPT).stdout))


def read_parts(output: str) -> dict[str, str]:
    """What ``SCRIPT`` printed, by part."""
    parts = output.split(_MARK)[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}
