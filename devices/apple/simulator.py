"""A simulator through ``xcrun simctl``: its files lie on this Mac, which also computes, so its times are no phone's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgec.devices.apple.connected import AppleDevice, check_ready, chosen
from edgec.devices.apple.xcrun import json_object, simctl
from edgec.devices.transport import DeviceFacts
from edgec.errors import InputError


def listed() -> list[AppleDevice]:
    """The simulators that are available, started or not.

    Raises:
        ToolError: E552, E557.
    """
    answer = json_object(simctl(["list", "devices", "available", "--json"], "sim", "Listing simulators"))
    groups = answer.get("devices")
    rows = groups.items() if isinstance(groups, Mapping) else ()
    return [_device(runtime, row) for runtime, found in rows for row in found if "iOS" in runtime]


def _device(runtime: str, row: Mapping[str, Any]) -> AppleDevice:
    version = re.search(r"iOS-(\d+)-(\d+)", runtime)
    udid, name = str(row.get("udid", "")), str(row.get("name", ""))
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
    """One simulator by its UDID."""

    simulated, sdk = True, "iphonesimulator"

    def __init__(self, udid: str) -> None:
        """Nothing is asked yet."""
        self.udid, self.where = udid, f"sim:{udid}"

    def ready(self, minimum_os: str) -> None:
        """Start it if it does not run; see ``Phone``."""
        if not self._device().connected:
            simctl(["bootstatus", self.udid, "-b"], self.where, "Starting the simulator")
        check_ready(self._device(), self.where, minimum_os)

    def facts(self) -> DeviceFacts:
        """See ``Phone``."""
        return self._device().facts()

    def install(self, app: Path) -> None:
        """See ``Phone``."""
        simctl(["install", self.udid, str(app)], self.where, "Installing the bench app")

    def write(self, app_id: str, name: str, source: Path) -> None:
        """See ``Phone``."""
        folder = self._documents(app_id)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)

    def launch(self, app_id: str) -> None:
        """See ``Phone``."""
        words = ["launch", "--terminate-running-process", self.udid, app_id]
        simctl(words, self.where, "Starting the bench app")

    def read(self, app_id: str, name: str) -> str:
        """See ``Phone``."""
        path = self._documents(app_id) / name
        return path.read_text(errors="replace") if path.is_file() else ""

    def uninstall(self, app_id: str) -> None:
        """See ``Phone``."""
        simctl(["uninstall", self.udid, app_id], self.where, "Removing the bench app")

    def _documents(self, app_id: str) -> Path:
        words = ["get_app_container", self.udid, app_id, "data"]
        return Path(simctl(words, self.where, "Finding the app's files").strip()) / "Documents"

    def _device(self) -> AppleDevice:
        return chosen(listed(), self.udid, self.where, "simctl")


def flagged(line: str) -> str:
    """A record of the app, marked as simulated.

    Raises:
        InputError: E558, it is no record.
    """
    try:
        fields = json.loads(line)
        obtained = str(fields["obtained"]).replace("measured", "simulated", 1)
        return json.dumps(fields | {"simulated": True, "obtained": obtained})
    except (ValueError, TypeError, KeyError) as cause:
        raise InputError("The app's result cannot be read.", "sim", str(cause), "run again", "E558") from cause
