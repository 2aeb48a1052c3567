"""A simulator reached through ``xcrun simctl``; this Mac does the computing, so its times are not those of a phone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.devices.answers import plain
from edgec.devices.apple.connected import AppleDevice, check_ready, chosen
from edgec.devices.apple.xcrun import file_text, json_object, simctl
from edgec.devices.transport import DeviceFacts


def listed() -> list[AppleDevice]:
    """All available simulators, started or not.

    Raises:
        ToolError: E552, E557.
    """
    doing = "Listing simulators"
    groups = json_object(simctl(["list", "devices", "available", "--json"], "sim", doing), "sim", doing).get("devices")
    devices = [
        _device(runtime, row)
        for runtime, rows in (groups.items() if isinstance(groups, Mapping) else ())
        for row in (rows if isinstance(rows, list) else ())
        if "iOS" in runtime and isinstance(row, Mapping)
    ]
    return [device for device in devices if device.udid]


def _device(runtime: str, row: Mapping[str, Any]) -> AppleDevice:
    version = re.search(r"iOS-(\d{1,4})-(\d{1,4})", runtime)
    udid, name = plain(row.get("udid")), plain(row.get("name"))
    return AppleDevice(
        udid=udid,
        identifier=udid,
        name=name,
        marketing_name=name,
        product="simulator",
        system="iOS simulator",
        version=f"{version[1]}.{version[2]}" if version else "",
        paired=True,
        developer_mode=True,
        connected=row.get("state") == "Booted",
        simulated=True,
    )


class Simulator:
    """One simulator, named by its UDID; implements ``Phone``."""

    simulated, sdk = True, "iphonesimulator"

    def __init__(self, udid: str) -> None:
        """Keep the UDID; the simulator is not contacted yet."""
        self.udid, self.where = udid, f"sim:{udid}"

    def ready(self, minimum_os: str) -> None:
        """Start the simulator if it does not run."""
        if not self._device().connected:
            simctl(["bootstatus", self.udid, "-b"], self.where, "Starting the simulator")
        check_ready(self._device(), self.where, minimum_os)

    def facts(self) -> DeviceFacts:
        """The facts that simctl reports."""
        return self._device().facts()

    def install(self, app: Path) -> None:
        """Install a built app."""
        simctl(["install", self.udid, str(app)], self.where, "Installing the bench app")

    def write(self, app_id: str, name: str, source: Path) -> None:
        """Copy a file into the app's Documents."""
        folder = self._documents(app_id)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)

    def launch(self, app_id: str) -> None:
        """Start the app."""
        words = ["launch", "--terminate-running-process", self.udid, app_id]
        simctl(words, self.where, "Starting the bench app")

    def read(self, app_id: str, name: str) -> str:
        """The text of a file in the app's Documents; empty when there is none yet."""
        return file_text(self._documents(app_id) / name)

    def uninstall(self, app_id: str) -> None:
        """Remove the app and its files."""
        simctl(["uninstall", self.udid, app_id], self.where, "Removing the bench app")

    def _documents(self, app_id: str) -> Path:
        words = ["get_app_container", self.udid, app_id, "data"]
        return Path(simctl(words, self.where, "Finding the app's files").strip()) / "Documents"

    def _device(self) -> AppleDevice:
        return chosen(listed(), self.udid, self.where, "simctl")
