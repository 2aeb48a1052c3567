"""Waiting for a hot phone to cool down, since heat slows it for reasons that have nothing to do with the model."""

from __future__ import annotations

import time
from collections.abc import Callable

from edgec.devices.adb.facts import PhoneState
from edgec.devices.stopping import Stop
from edgec.devices.transport import Conditions, Say
from edgec.errors import InputError

POLL_S = 10.0


def wait_cool(
    read: Callable[[], PhoneState],
    conditions: Conditions,
    say: Say,
    where: str,
    stopping: Stop,
) -> None:
    """Return when the phone is at most ``max_temperature_c`` warm, or Android reports the thermal status 0.

    A phone that reports neither is not waited for: its record holds None.

    Raises:
        InputError: E550, it stayed hot for ``heat_timeout_s``; E566, it was stopped meanwhile.
    """
    start = time.monotonic()
    while not cool(state := read(), conditions.max_temperature_c):
        waited = time.monotonic() - start
        if waited >= conditions.heat_timeout_s:
            raise _too_hot(state, conditions, where)
        say(f"waiting for {where} to cool: {_shown(state)}, {waited:.0f} s so far")
        stopping.pause(POLL_S, where)


def cool(state: PhoneState, limit_c: float) -> bool:
    """Whether the phone is cool enough for a measurement to begin."""
    temperature, status = state.temperature_c, state.thermal_status
    if temperature is None and status is None:
        return True
    return status == 0 or (temperature is not None and temperature <= limit_c)


def _shown(state: PhoneState) -> str:
    degrees = "temperature unavailable" if state.temperature_c is None else f"{state.temperature_c:.1f} °C"
    return f"{degrees}, thermal status {'unavailable' if state.thermal_status is None else state.thermal_status}"


def _too_hot(state: PhoneState, conditions: Conditions, where: str) -> InputError:
    return InputError(
        "The phone does not cool down.",
        where=where,
        why=f"{_shown(state)} after {conditions.heat_timeout_s:g} s; the limit is {conditions.max_temperature_c:g} °C",
        fix="unplug its charger, take it out of its case, or raise --max-temperature",
        code="E550",
    )
