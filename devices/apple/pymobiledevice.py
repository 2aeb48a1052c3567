"""An iPhone without a Mac, through the program ``pymobiledevice3`` (it is GPL, so nothing of it is imported).

It installs an app that was built and signed on a Mac (``EDGEC_BENCH_APP``), exchanges files with it, and starts it over
a developer tunnel, which iOS 17 and newer require: ``sudo pymobiledevice3 remote tunneld`` must be running.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgec.devices.answers import AnswerFault, json_among, plain
from edgec.devices.apple.connected import AppleDevice, check_reachable, check_ready, chosen
from edgec.devices.apple.phone import copy_text
from edgec.devices.apple.refusals import ErrorLink, refusal
from edgec.devices.apple.xcrun import called, no_xcode
from edgec.devices.transport import DeviceFacts
from edgec.errors import ToolError

PROGRAM = "pymobiledevice3"


def present() -> bool:
    """Whether the program is installed."""
    return shutil.which(PROGRAM) is not None


def listed() -> list[AppleDevice]:
    """The iPhones on USB.

    Raises:
        ToolError: E552, E557.
    """
    try:
        rows = json_among(_called(["usbmux", "list"], "ios", "Listing devices"), "[") or []
    except AnswerFault as cause:
        what = "The answer of pymobiledevice3 cannot be understood."
        raise ToolError(what, "ios", str(cause), "update it", "E559") from cause
    devices = [_device(row) for row in rows if isinstance(row, Mapping)]
    return [device for device in devices if device.udid]


def _device(row: Mapping[str, Any]) -> AppleDevice:
    udid = plain(row.get("Identifier"))
    return AppleDevice(
        udid=udid,
        identifier=udid,
        name=plain(row.get("DeviceName")),
        marketing_name="",
        product=plain(row.get("ProductType")),
        system=plain(row.get("DeviceClass", "iPhone")).replace("iPhone", "iOS").replace("iPad", "iPadOS"),
        version=plain(row.get("ProductVersion")),
        paired=bool(row.get("ProductVersion")),
        developer_mode=None,
        connected=True,
    )


class PyMobileDevicePhone:
    """One iPhone, named by its UDID; implements ``Phone``."""

    simulated, sdk = False, "iphoneos"

    def __init__(self, udid: str) -> None:
        """Keep the UDID; the phone is not contacted yet."""
        self.udid, self.where = udid, f"ios:{udid}"

    def ready(self, minimum_os: str) -> None:
        """Refuse a device that cannot be used, or whose system is too old."""
        check_ready(self._listed(), self.where, minimum_os)

    def facts(self) -> DeviceFacts:
        """The facts that pymobiledevice3 reports."""
        return self._listed().facts()

    def install(self, app: Path) -> None:
        """Install a built app."""
        self._do(["apps", "install", str(app)], "Installing the bench app")

    def write(self, app_id: str, name: str, source: Path) -> None:
        """Copy a file into the app's Documents."""
        self._do(["apps", "push", app_id, str(source), f"Documents/{name}"], f"Copying {name}")

    def launch(self, app_id: str) -> None:
        """Start the app."""
        self._do(["developer", "dvt", "launch", app_id, "--tunnel", self.udid], "Starting the bench app")

    def read(self, app_id: str, name: str) -> str:
        """The text of a file in the app's Documents; empty when there is none yet."""
        words = ["apps", "pull", app_id, f"Documents/{name}"]
        return copy_text(name, lambda target: self._do([*words, str(target)], f"Reading {name}"), self._check_there)

    def uninstall(self, app_id: str) -> None:
        """Remove the app and its files."""
        self._do(["apps", "uninstall", app_id], "Removing the bench app")

    def _check_there(self) -> None:
        check_reachable(self._listed(), self.where)

    def _do(self, words: Sequence[str], doing: str) -> str:
        own = [] if "--tunnel" in words else ["--udid", self.udid]
        return _called([*words, *own], self.where, doing)

    def _listed(self) -> AppleDevice:
        return chosen(listed(), self.udid, self.where, PROGRAM)


def _called(words: Sequence[str], where: str, doing: str) -> str:
    if not present():
        raise no_xcode(where)
    done = called([PROGRAM, *words], where)
    if done.returncode != 0:
        raise refusal([ErrorLink("", 0, plain(done.stderr[-400:]))], where, doing)
    return done.stdout
