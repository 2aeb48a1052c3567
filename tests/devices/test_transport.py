from __future__ import annotations

from pathlib import Path

import pytest

from edgec.devices import host
from edgec.devices.host import HostTransport
from edgec.devices.transport import Address, Conditions, parse_address
from edgec.errors import InputError, ToolError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host", Address("host")),
        ("qemu", Address("qemu")),
        ("adb:emulator-5554", Address("adb", "emulator-5554")),
        ("adb:10.0.0.2:5555", Address("adb", "10.0.0.2:5555")),
        ("ios:00008140-001A", Address("ios", "00008140-001A")),
        ("sim:7F1C", Address("sim", "7F1C")),
    ],
)
def test_addresses_are_read_and_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "phone", "adb", "adb:", "host:1", "host:", "qemu:x", ":x"])
def test_other_texts_are_not_addresses(text: str) -> None:
    with pytest.raises(InputError, match="E170"):
        parse_address(text)


def test_what_a_job_is_meant_to_take_does_not_count_as_silence() -> None:
    job = {"seconds": 1200.0, "cool_down_s": 60.0, "warmups": 1, "repetitions": 5}
    conditions = Conditions(silence_s=600.0)
    assert conditions.whole_job_s(job) == 600.0 + 1200.0 + 6 * 60.0
    assert conditions.between_outputs_s(job) == 660.0


def test_facts_of_this_machine_are_plausible() -> None:
    facts = HostTransport().facts()
    assert facts.cores >= 1 and facts.memory_bytes > 1 << 28 and facts.cpu
    assert facts.machine.endswith(f"x{facts.cores}")


def test_what_cannot_be_read_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "THERMAL", tmp_path)
    monkeypatch.setattr(host, "CPU0", tmp_path / "none")
    facts = HostTransport().facts()
    assert facts.temperature_c is None and facts.governor is None


def test_the_hottest_zone_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for i, reading in enumerate(("41000", "56500", "broken")):
        (tmp_path / f"thermal_zone{i}").mkdir()
        (tmp_path / f"thermal_zone{i}" / "temp").write_text(reading)
    monkeypatch.setattr(host, "THERMAL", tmp_path)
    assert HostTransport().facts().temperature_c == 56.5


@pytest.mark.long
def test_errors_of_the_measuring_process_come_back_typed(tmp_path: Path) -> None:
    job = {"kind": "speed", "bundle": str(tmp_path / "none.edgec"), "prompt_tokens": 1, "new_tokens": 2}
    with pytest.raises(InputError, match="E130"):
        HostTransport().run(job)


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(ToolError, match="E321"):
        HostTransport().run({"kind": "speed", "unknown": 1})
