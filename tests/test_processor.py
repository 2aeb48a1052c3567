"""What the kernel says of the processor, with the answers of a Mac stood in."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from edgec import processor

M2: Mapping[str, bytes] = {
    "machdep.cpu.brand_string": b"Apple M2\0",
    "sysctl.proc_translated": (0).to_bytes(4, "little"),
    "hw.perflevel0.physicalcpu": (4).to_bytes(4, "little"),
}
XEON = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx2\ncpu MHz\t\t: {}\n\nprocessor\t: 1\n"


def answers_of(known: Mapping[str, bytes]) -> Any:
    """`sysctlbyname` of a machine that knows these names."""

    def call(name: bytes, data: Any, size: Any, new: None, new_size: Any) -> int:
        value = known.get(name.decode())
        if value is None:
            return -1
        if data is not None:
            ctypes.memmove(data, value, len(value))
        size._obj.value = len(value)
        return 0

    return call


def mac(monkeypatch: pytest.MonkeyPatch, known: Mapping[str, bytes] = M2) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(processor, "_sysctl", lambda: answers_of(known))


def test_a_mac_is_known_by_its_chip_and_not_by_its_system(monkeypatch: pytest.MonkeyPatch) -> None:
    mac(monkeypatch)
    assert processor.processor_name() == "Apple M2"
    assert processor.processor_identity() == ("arm64", "Apple M2")
    assert processor.system_number("hw.perflevel0.physicalcpu") == 4
    assert processor.system_number("hw.no.such") == 0 and processor.system_text("hw.no.such") == ""


@pytest.mark.parametrize(
    ("said", "translated"), [({}, False), ({"sysctl.proc_translated": b"\1\0\0\0"}, True), (M2, False)]
)
def test_rosetta_is_recognised(monkeypatch: pytest.MonkeyPatch, said: Mapping[str, bytes], translated: bool) -> None:
    mac(monkeypatch, said)
    assert processor.is_translated() is translated


def test_linux_lists_the_first_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert processor.processor_features() == frozenset() and processor.processor_identity()
    (tmp_path / "cpuinfo").write_text(XEON.format(2000))
    assert processor.processor_name() == "Xeon" and processor.processor_features() == {"fpu", "avx2"}
    before = processor.processor_identity()
    (tmp_path / "cpuinfo").write_text(XEON.format(3000))
    assert processor.processor_identity() == before, "compiled code does not depend on a clock"
