"""A private adb server, and a phone on the loopback whose runner is a stand-in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgec.bundle.folder import write_bundle
from edgec.devices.adb import transport as adb_transport
from edgec.devices.runner.files import RunnerPackage
from tests.devices.phone.faults import Faults
from tests.devices.phone.phone import LoopbackPhone
from tests.runtime_py.tiny_decoder import manifest

STAND_IN = Path(__file__).parents[1] / "phone" / "stand_in_runner.py"
Plug = Callable[..., LoopbackPhone]


def adb_program() -> str | None:
    """The adb on the path, else the one inside adbutils."""
    try:
        from adbutils import adb_path
    except ImportError:
        return shutil.which("adb")
    return shutil.which("adb") or adb_path()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def adb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The program, with a private server on its own port and with its own key; the user's server is never touched."""
    program = adb_program()
    if program is None:
        pytest.skip("adb is not installed: pip install adbutils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(free_port()))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("adb-home")))
        patch.setenv("ADBUTILS_ADB_PATH", program)
        yield program
        subprocess.run([program, "kill-server"], capture_output=True, check=False, timeout=20)


@pytest.fixture(scope="session")
def phone_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose artifact is random bytes, since the stand-in does not read it."""
    path = tmp_path_factory.mktemp("bundle") / "tiny.edgec"
    write_bundle(path, manifest(), {"model.pte": os.urandom(1_500_000)})
    return path


@pytest.fixture
def plug(adb_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Plug in loopback phones; their runner is the stand-in."""
    weights = tmp_path / "library.so"
    weights.write_bytes(os.urandom(300_000))
    package = RunnerPackage({"runner": STAND_IN, "library.so": weights}, ("./runner",))
    monkeypatch.setattr(adb_transport, "arm64_runner", lambda say: package)
    with ExitStack() as stack:

        def plugged(faults: Faults | None = None) -> LoopbackPhone:
            number = len(list(tmp_path.glob("phone-*")))
            phone = stack.enter_context(LoopbackPhone(tmp_path / f"phone-{number}", faults).plugged_in())
            stack.callback(subprocess.run, [adb_server, "disconnect", phone.serial], capture_output=True, check=False)
            return phone

        yield plugged
