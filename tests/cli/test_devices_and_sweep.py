"""devices and sweep as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from edgec.cli.devices import devices
from edgec.cli.sweep import sweep
from edgec.devices import connected
from edgec.devices.adb.faults import no_adb, refusal
from edgec.devices.connected import Connected
from edgec.errors import InputError


def invoke(command: Callable[..., None], *arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def phones(monkeypatch: pytest.MonkeyPatch) -> None:
    def android() -> list[Connected]:
        ready = Connected("adb:A", "Pixel 9", "Tensor G4", "Android 16", "ready", "", "", 81.0, 30.5)
        return [ready, connected._faulty("adb:B", None, refusal("device unauthorized", "adb:B"))]

    def broken() -> list[Connected]:
        raise no_adb("it is not there")

    monkeypatch.setattr(connected, "_android", android)
    monkeypatch.setattr(connected, "_iphones", broken)
    monkeypatch.setattr(connected, "_simulators", lambda: iter(()))


def test_devices_are_listed_with_state_battery_and_temperature(phones: None) -> None:
    shown = invoke(devices).stdout
    assert "81 %" in shown and "30.5 °C" in shown and "unauthorised" in shown
    assert "Allow USB debugging" in shown and "adb cannot be started" in shown


def test_devices_for_machines(phones: None) -> None:
    said = json.loads(invoke(devices, "--json").stdout)
    states = {device["address"]: device["state"] for device in said["devices"]}
    assert states["adb:A"] == "ready" and states["adb:B"] == "unauthorised" and states["host"] == "ready"
    assert [tool["code"] for tool in said["tools"]] == ["E540"]


@pytest.mark.parametrize("command", [devices, sweep])
def test_help_shows_two_examples(command: Callable[..., None]) -> None:
    assert invoke(command, "--help").stdout.count(f"edgec {command.__name__}") >= 2


def test_a_sweep_without_a_specification(tmp_path: Path) -> None:
    error = invoke(sweep, str(tmp_path / "none.toml"), "--out", str(tmp_path / "out")).exception
    assert isinstance(error, InputError) and error.code == "E560"
