"""Debian's own adbd in place of the loopback phone. It listens on every address as root without asking for a key, so it
runs inside a private network namespace or not at all: ``tests/devices/phone/fetch_adbd.sh build/adbd`` gets it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.devices.adb.conftest import adb_program
from tests.devices.phone.phone import COMMANDS

ROOT = Path(__file__).parents[3] / "build" / "adbd"
REPOSITORY = Path(__file__).parents[3]


def private_network() -> bool:
    unshare = shutil.which("unshare")
    return (
        unshare is not None
        and subprocess.run([unshare, "-n", "-m", "true"], capture_output=True, check=False).returncode == 0
    )


def present() -> bool:
    return any(path.is_file() for path in ROOT.rglob("adbd"))


@pytest.mark.slow
@pytest.mark.skipif(not private_network(), reason="unshare -n is not permitted here")
@pytest.mark.skipif(not present(), reason="no adbd: run tests/devices/phone/fetch_adbd.sh build/adbd")
@pytest.mark.skipif(adb_program() is None, reason="no adb")
def test_the_real_daemon_does_what_ours_does(tmp_path: Path, phone_bundle: Path) -> None:
    environment = os.environ | {
        "ADBD_ROOT": str(ROOT),
        "PHONE_COMMANDS": str(COMMANDS),
        "WORK": str(tmp_path),
        "BUNDLE": str(phone_bundle),
        "ADBUTILS_ADB_PATH": str(adb_program()),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
    }
    script = REPOSITORY / "tests" / "devices" / "adb" / "in_private_network.sh"
    line = ["unshare", "-n", "-m", "sh", str(script)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "left behind: []" in done.stdout and "records: 13" in done.stdout
