"""The time limit of the emulated runner as a transport."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from edgec.bundle.folder import open_bundle, write_bundle
from edgec.devices.qemu import transport as qemu_transport
from edgec.devices.qemu.transport import QemuTransport
from edgec.devices.transport import Address, Conditions
from edgec.errors import InputError
from edgec.runtime_py.bench.bench import BenchPlan
from tests.runtime_py.tiny_decoder import manifest


def test_a_run_may_take_the_minutes_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never_ends(line: list[str], **options: Any) -> None:
        raise subprocess.TimeoutExpired(line, options["timeout"])

    monkeypatch.setattr(qemu_transport, "find_emulator", lambda: None)
    monkeypatch.setattr(qemu_transport, "qemu_line", lambda build, words: list(words))
    monkeypatch.setattr(QemuTransport, "_build", None)
    monkeypatch.setattr(subprocess, "run", never_ends)
    write_bundle(tmp_path / "x.edgec", manifest(), {"model.pte": b"x"})
    job = BenchPlan(prompt_tokens=8, new_tokens=4, cool_down_s=10.0).job(open_bundle(tmp_path / "x.edgec")).to_json()
    transport = QemuTransport(Address("qemu"), Conditions(silence_s=600.0), lambda text: None)
    with pytest.raises(InputError, match="E544") as caught:
        transport.run(job | {"kind": "sustained", "seconds": 900.0})
    # 600 s of silence, 900 s asked for, a pause of 10 s before each of 3 warm-ups and 5 repetitions.
    assert "1580 s" in caught.value.why
    transport.close()
