"""Apple devices as Apple's tools describe them, and what keeps one from being used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgec.devices.answers import plain
from edgec.devices.apple.refusals import absent, developer_mode, too_old, unpaired
from edgec.devices.transport import DeviceFacts
from edgec.errors import InputError


@dataclass(frozen=True)
class AppleDevice:
    """One Apple device; fields that the tool does not report are empty.

    Attributes:
        product: Apple's identifier, ``iPhone17,1``.
        paired: whether it trusts this computer; None: unknown.
        developer_mode: whether it is on; None: unknown.
        connected: whether it can be reached now.
    """

    udid: str
    identifier: str
    name: str
    marketing_name: str
    product: str
    system: str
    version: str
    paired: bool | None
    developer_mode: bool | None
    connected: bool
    simulated: bool = False

    def facts(self) -> DeviceFacts:
        """The device facts, as far as they are known without the app."""
        return DeviceFacts(
            system=f"{self.system} {self.version or 'unknown'}",
            cpu=self.product or "unknown",
            cores=0,
            memory_bytes=0,
            governor=None,
            clock_mhz=None,
            load_average=None,
            temperature_c=None,
            product=self.marketing_name or self.name or None,
            executed_in="app",
            simulated=self.simulated,
        )


def apple_device(fields: Mapping[str, Any]) -> AppleDevice | None:
    """A device from ``devicectl list devices``; None for watches and the like, or without an identifier."""
    hardware, device, connection = (_part(fields, f"{name}Properties") for name in ("hardware", "device", "connection"))
    if hardware.get("platform", "iOS") not in ("iOS", "iPadOS"):
        return None
    pairing, mode = connection.get("pairingState"), device.get("developerModeStatus")
    identifier = plain(fields.get("identifier"))
    udid = plain(hardware.get("udid")) or identifier
    if not udid:
        return None
    return AppleDevice(
        udid=udid,
        identifier=identifier,
        name=plain(device.get("name")),
        marketing_name=plain(hardware.get("marketingName")),
        product=plain(hardware.get("productType")),
        system=plain(hardware.get("platform", "iOS")),
        version=plain(device.get("osVersionNumber")),
        paired=None if pairing is None else pairing == "paired",
        developer_mode=None if mode is None else mode == "enabled",
        connected=connection.get("tunnelState") != "unavailable",
    )


def _part(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = fields.get(name)
    return part if isinstance(part, Mapping) else {}


def fault(device: AppleDevice, where: str) -> InputError | None:
    """What keeps a device from being used with any bundle; None where nothing does."""
    if device.paired is False:
        return unpaired(where, "it is not paired")
    if not device.connected:
        what, fix = "The iPhone cannot be reached.", "connect it by cable and unlock it"
        return InputError(what, where, "its tunnel is unavailable", fix, "E543")
    if device.developer_mode is False:
        return developer_mode(where, "developerModeStatus is not enabled")
    return None


def chosen(devices: Iterable[AppleDevice], udid: str, where: str, lister: str) -> AppleDevice:
    """The device with a UDID, or with devicectl's identifier.

    Raises:
        InputError: E541, ``lister`` does not list it.
    """
    device = next((listed for listed in devices if udid in (listed.udid, listed.identifier)), None)
    if device is None:
        raise absent(where, f"{lister} does not list it")
    return device


def check_ready(device: AppleDevice, where: str, minimum_os: str) -> None:
    """Refuse a device that cannot be used, or whose system is older than ``minimum_os``.

    Raises:
        InputError: E543, E554, E555, E556.
    """
    check_reachable(device, where)
    if device.version and _older(device.version, minimum_os):
        raise too_old(where, f"{device.system} {device.version}", minimum_os)


def check_reachable(device: AppleDevice, where: str) -> None:
    """Refuse a device that cannot be used.

    Raises:
        InputError: E543, E554, E555.
    """
    error = fault(device, where)
    if error is not None:
        raise error


def _older(version: str, minimum: str) -> bool:
    """Whether a version is older than the minimum; ``17`` counts as ``17.0``."""
    numbers = [[int(part) for part in re.findall(r"\d{1,9}", text)] for text in (version, minimum)]
    length = max(map(len, numbers))
    has, needs = (parts + [0] * (length - len(parts)) for parts in numbers)
    return has < needs
