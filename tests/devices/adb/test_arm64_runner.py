"""A whole run without stand-ins for its figures: adb, the loopback phone, and the arm64 runner under qemu."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from edgec.devices.qemu.emulator import EMULATOR
from edgec.runtime_py.bench.bench import bench
from edgec.runtime_py.bench.record import LoadRecord, MemoryRecord, RepetitionRecord, SustainedRecord
from tests.devices.phone.phone import LoopbackPhone

TOOLS = (EMULATOR, "aarch64-linux-gnu-g++")


@pytest.mark.slow
@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {' and '.join(TOOLS)}")
def test_the_phone_s_runner_is_measured_over_adb(adb_server: str, tiny_bundle: Path, tmp_path: Path) -> None:
    with LoopbackPhone(tmp_path).plugged_in() as phone:
        shape: dict[str, Any] = {
            "prompt_tokens": 20,
            "new_tokens": 4,
            "warmups": 1,
            "threads": 1,
            "sustained_minutes": 0.02,
        }
        result = bench(tiny_bundle, f"adb:{phone.serial}", cool_down_s=0.05, cores="0", **shape)
        assert phone.left_behind() == []
    laps = [record for record in result.records if isinstance(record, RepetitionRecord)]
    assert [lap.tokens for lap in laps] == [4] * 5 and all(lap.ttft_ms > 0 for lap in laps)
    shares = {r.state: r.resident_share for r in result.records if isinstance(r, LoadRecord)}
    assert shares["warm"] == 1.0 and shares["cold"] is not None
    (memory,) = (record for record in result.records if isinstance(record, MemoryRecord))
    assert memory.peak_rss_bytes > memory.baseline_rss_bytes > 0
    assert any(isinstance(record, SustainedRecord) for record in result.records)
    assert result.records[0].comparability.threads == 1 and result.figures == ()
