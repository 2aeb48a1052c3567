"""``edgec devices`` lists what is connected."""

from __future__ import annotations

from typing import Annotated

import typer


def devices(json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """List connected devices (model, chip, system, state, battery, temperature) and any problems, with what to do.

    Android phones need USB debugging and adb, iPhones a Mac with Xcode (or pymobiledevice3).

    Examples:
    edgec devices

    edgec devices --json
    """
    from edgec.devices.connected_console import show_devices

    show_devices(json)
