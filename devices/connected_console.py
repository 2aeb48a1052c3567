"""The output of ``edgec devices``: a table, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.text import Text

from edgec.devices.connected import Connected, connected_devices
from edgec.terminal import WordTable, make_console


def show_devices(as_json: bool) -> None:
    """Print the connected devices and any problems."""
    devices, faults = connected_devices()
    if as_json:
        fields = {"devices": [device.to_json() for device in devices], "tools": [fault.to_json() for fault in faults]}
        print(json.dumps(fields))
        return
    console = make_console()
    console.print(device_table(devices))
    for device in devices:
        if device.problem:
            said = f"{device.address}: {device.problem}\n  fix: {device.fix}"
            console.print(said, soft_wrap=True, markup=False, emoji=False)
    for fault in faults:
        console.print(f"{fault.what} {fault.why}\n  fix: {fault.fix}", soft_wrap=True, markup=False, emoji=False)


def device_table(devices: Sequence[Connected]) -> WordTable:
    """A table with one row per device; addresses are never wrapped, so that they can be pasted."""
    table = WordTable()
    for column in ("device", "model", "chip", "system", "state", "condition"):
        table.add_column(column, overflow="fold", no_wrap=column in ("device", "condition"))
    for device in devices:
        state = f"{device.state}, simulated" if device.simulated else device.state
        battery = None if device.battery_percent is None else f"{device.battery_percent:.0f} %"
        temperature = None if device.temperature_c is None else f"{device.temperature_c:.1f} °C"
        condition = "\n".join(filter(None, (battery, temperature)))
        row = (device.address, device.product, device.chip, device.system, state, condition)
        # Text, since a device may have brackets in its name.
        table.add_row(*(Text(text or "unavailable") for text in row))
    return table
