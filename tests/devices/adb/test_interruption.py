"""Ctrl-C while a worker pushes, waits or measures: a real SIGINT ends edgec, and nothing stays on the phone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.devices.adb.transport import AdbTransport
from edgec.devices.transport import Address, Conditions
from edgec.errors import InputError
from tests.devices.adb.conftest import Plug
from tests.devices.phone.faults import Faults
from tests.devices.phone.phone import LoopbackPhone

REPOSITORY = Path(__file__).parents[3]
INTERRUPTED = 130
START_S, END_S = 60.0, 30.0


def interrupted(phone: LoopbackPhone, bundle: Path, library: Path, now: Callable[[], bool]) -> int:
    """The exit status of ``edgec bench``, sent a SIGINT when ``now`` says so."""
    library.write_bytes(os.urandom(300_000))
    words = ["bench", str(bundle), "--device", f"adb:{phone.serial}", "--prompt-tokens", "20", "--new-tokens", "4"]
    environment = os.environ | {"STAND_IN_LIBRARY": str(library), "PYTHONPATH": str(REPOSITORY)}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.devices.adb.stand_in_edgec", *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait(now, child)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=END_S)
        assert "Traceback" not in said, said
        return child.returncode
    finally:
        child.kill()


def wait(now: Callable[[], bool], child: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_S
    while not now():
        assert child.poll() is None and time.monotonic() < deadline, child.communicate()[1] if child.poll() else "late"
        time.sleep(0.02)


@pytest.mark.long
def test_during_a_push(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug(Faults(push_pause_s=0.3))
    status = interrupted(phone, phone_bundle, tmp_path / "l.so", lambda: phone.faults.pushed > 200_000)
    # What the phone still holds of the broken push is worked off before one looks.
    time.sleep(1.0)
    assert (status, phone.left_behind()) == (INTERRUPTED, [])


@pytest.mark.long
def test_while_a_phone_cools(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug()
    phone.set_heat(45.0, 2)
    status = interrupted(phone, phone_bundle, tmp_path / "l.so", lambda: any(phone.storage.glob("*/requests")))
    assert (status, phone.left_behind()) == (INTERRUPTED, [])


@pytest.mark.long
def test_while_a_silent_job_runs(
    plug: Plug, phone_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_S", "300")
    phone = plug()
    status = interrupted(phone, phone_bundle, tmp_path / "l.so", lambda: any(phone.storage.glob("*/results.jsonl")))
    assert (status, phone.left_behind()) == (INTERRUPTED, [])


def test_what_is_closed_begins_nothing_more(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    transport = AdbTransport(Address("adb", phone.serial), Conditions(), lambda text: None)
    transport.close()
    with pytest.raises(InputError, match="E566"):
        transport.run({"kind": "load", "bundle": str(phone_bundle)})
    assert phone.left_behind() == []
