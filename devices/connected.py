"""``edgec.connected_devices``: the connected devices, what keeps any of them from being measured, and the fix."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgec.devices.transport import DeviceFacts
from edgec.errors import EdgecError


@dataclass(frozen=True)
class Connected:
    """One device; None means unavailable.

    Attributes:
        address: as ``--device`` takes it.
        product: what it is sold as.
        state: ``ready``, or in a word what keeps it from being measured.
        problem: the same in a sentence, or the implausible answers of a ready device; empty where all is well.
        fix: what to do about it.
    """

    address: str
    product: str | None
    chip: str | None
    system: str | None
    state: str
    problem: str = ""
    fix: str = ""
    battery_percent: float | None = None
    temperature_c: float | None = None
    simulated: bool = False

    def to_json(self) -> dict[str, Any]:
        """The record as plain data."""
        return asdict(self)


STATES = {
    "E541": "absent",
    "E542": "unauthorised",
    "E543": "offline",
    "E544": "silent",
    "E546": "unsupported",
    "E554": "untrusted",
    "E555": "developer mode off",
    "E575": "not understood",
}


def connected_devices() -> tuple[tuple[Connected, ...], tuple[EdgecError, ...]]:
    """All devices that the installed tools know, and what kept a tool from answering. Nothing is changed on them."""
    devices, faults = [_host()], list[EdgecError]()
    parts: tuple[Callable[[], Iterator[Connected]], ...] = (_qemu, _android, _iphones, _simulators)
    for part in parts:
        try:
            devices += part()
        except EdgecError as error:
            faults.append(error)
    return tuple(devices), tuple(faults)


def _host() -> Connected:
    from edgec.devices.host import HostTransport

    facts = HostTransport().facts()
    return Connected("host", "this machine", facts.machine, facts.system, "ready", temperature_c=facts.temperature_c)


def _qemu() -> Iterator[Connected]:
    from edgec.devices.qemu.emulator import EMULATOR

    if shutil.which(EMULATOR):
        yield Connected("qemu", "arm64 programs here", "emulated", "Linux", "ready", simulated=True)


def _android() -> Iterator[Connected]:
    from edgec.devices.adb.link import serials

    for serial in serials():
        yield _phone(serial)


def _phone(serial: str) -> Connected:
    from edgec.devices.adb.facts import read_state
    from edgec.devices.adb.faults import wrong_abi
    from edgec.devices.adb.link import AdbLink
    from edgec.devices.adb.transport import ABIS

    link = AdbLink(serial)
    try:
        link.ready()
        state = read_state(link)
    except EdgecError as error:
        return _faulty(link.where, None, error)
    facts = state.facts()
    if state.abi not in ABIS:
        return _faulty(link.where, facts, wrong_abi(link.where, state.abi))
    return _doubted(_ready(link.where, facts), state.faults)


def _iphones() -> Iterator[Connected]:
    from edgec.devices.apple import iphone, pymobiledevice
    from edgec.devices.apple.connected import fault
    from edgec.devices.apple.xcrun import has_xcode

    phones = iphone.listed() if has_xcode() else pymobiledevice.listed() if pymobiledevice.present() else []
    for phone in phones:
        where = f"ios:{phone.udid}"
        error = fault(phone, where)
        yield _faulty(where, phone.facts(), error) if error else _ready(where, phone.facts())


def _simulators() -> Iterator[Connected]:
    from edgec.devices.apple import simulator
    from edgec.devices.apple.xcrun import has_xcode

    for device in simulator.listed() if has_xcode() else []:
        if device.connected:
            yield _ready(f"sim:{device.udid}", device.facts())


def _ready(where: str, facts: DeviceFacts) -> Connected:
    return Connected(
        where,
        facts.product,
        _chip(facts),
        facts.system,
        "ready",
        battery_percent=facts.battery_percent,
        temperature_c=facts.temperature_c,
        simulated=facts.simulated,
    )


def _doubted(device: Connected, faults: Sequence[str]) -> Connected:
    """A ready device, with its implausible answers listed as its problem."""
    if not faults:
        return device
    fix = "these facts count as unavailable; restart the phone if it reported them correctly before"
    return replace(device, problem=f"not understood: {'; '.join(faults)}", fix=fix)


def _faulty(where: str, facts: DeviceFacts | None, error: EdgecError) -> Connected:
    state, problem = STATES.get(error.code, "unusable"), f"{error.what} {error.why}".strip()
    if facts is None:
        return Connected(where, None, None, None, state, problem, error.fix)
    return Connected(
        where, facts.product, _chip(facts), facts.system, state, problem, error.fix, simulated=facts.simulated
    )


def _chip(facts: DeviceFacts) -> str:
    """The chip's name where edgec's list of phones knows the product, else what the device calls it."""
    from edgec.devices.targets import all_targets

    wanted = _words(facts.product or "")
    names = (target.chip_name for target in all_targets() if wanted and _words(target.phone_name) == wanted)
    return next((name for name in names if name), facts.cpu)


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).replace("apple ", "").strip()
