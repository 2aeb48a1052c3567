"""An iPhone reached through ``xcrun devicectl`` (Xcode 15 and newer)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.devices.apple.connected import AppleDevice, apple_device, check_reachable, check_ready, chosen
from edgec.devices.apple.phone import copy_text
from edgec.devices.apple.xcrun import devicectl
from edgec.devices.transport import DeviceFacts


def listed() -> list[AppleDevice]:
    """All iPhones and iPads that this Mac knows.

    Raises:
        ToolError: E552, E557.
    """
    rows = devicectl(["list", "devices"], "ios", "Listing devices").get("devices")
    devices = [apple_device(row) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return [device for device in devices if device is not None]


class Iphone:
    """One iPhone, named by its UDID (or devicectl's identifier); implements ``Phone``."""

    simulated, sdk = False, "iphoneos"

    def __init__(self, udid: str) -> None:
        """Keep the UDID; the phone is not contacted yet."""
        self.udid, self.where = udid, f"ios:{udid}"

    def ready(self, minimum_os: str) -> None:
        """Refuse a device that cannot be used, or whose system is too old."""
        check_ready(self._device(), self.where, minimum_os)

    def facts(self) -> DeviceFacts:
        """The facts that devicectl reports."""
        return self._device().facts()

    def install(self, app: Path) -> None:
        """Install a built app."""
        self._do(["install", "app", str(app)], "Installing the bench app")

    def write(self, app_id: str, name: str, source: Path) -> None:
        """Copy a file into the app's Documents."""
        words = ["copy", "to", *_documents(app_id), "--source", str(source), "--destination", f"Documents/{name}"]
        self._do(words, f"Copying {name}")

    def launch(self, app_id: str) -> None:
        """Start the app without ``--console``, which ends when the app goes to the background."""
        self._do(["process", "launch", "--terminate-existing", app_id], "Starting the bench app")

    def read(self, app_id: str, name: str) -> str:
        """The text of a file in the app's Documents; empty when there is none yet."""
        words = ["copy", "from", *_documents(app_id), "--source", f"Documents/{name}", "--destination"]
        return copy_text(name, lambda target: self._do([*words, str(target)], f"Reading {name}"), self._check_there)

    def uninstall(self, app_id: str) -> None:
        """Remove the app and its files."""
        self._do(["uninstall", "app", app_id], "Removing the bench app")

    def _check_there(self) -> None:
        check_reachable(self._device(), self.where)

    def _do(self, words: list[str], doing: str) -> dict[str, Any]:
        return devicectl(["device", *words[:2], "--device", self.udid, *words[2:]], self.where, doing)

    def _device(self) -> AppleDevice:
        return chosen(listed(), self.udid, self.where, "devicectl")


def _documents(app_id: str) -> list[str]:
    return ["--domain-type", "appDataContainer", "--domain-identifier", app_id]
