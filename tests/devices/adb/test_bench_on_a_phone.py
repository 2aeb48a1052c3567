"""``edgec bench --device adb:...`` against the loopback phone, from the address to the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgec.runtime_py.bench import bench
from edgec.runtime_py.bench_record import LoadRecord, MemoryRecord, RepetitionRecord, RunRecord, read_records
from tests.devices.adb.conftest import Plug

SHORT: dict[str, Any] = {"prompt_tokens": 20, "new_tokens": 4, "warmups": 1}


def test_a_phone_is_measured_and_left_as_it_was(plug: Plug, phone_bundle: Path, tmp_path: Path) -> None:
    phone = plug()
    said: list[str] = []
    result = bench(phone_bundle, f"adb:{phone.serial}", **SHORT, out=tmp_path / "run.jsonl", say=said.append)
    records = read_records(tmp_path / "run.jsonl")
    head = next(record for record in records if isinstance(record, RunRecord))
    assert head.simulated and head.before.simulated and head.before.product == "edgec Loopback"
    assert (head.before.battery_percent, head.before.charging, head.before.screen_on) == (88, True, True)
    assert (head.before.temperature_c, head.before.thermal_status) == (31.2, 0)
    assert [r.state for r in records if isinstance(r, LoadRecord)] == ["cold", "warm"] * 3
    assert [r.token_ms for r in records if isinstance(r, RepetitionRecord)] == [[2.0] * 3] * 5
    assert [r.peak_rss_bytes for r in records if isinstance(r, MemoryRecord)] == [50_000_000]
    assert phone.left_behind() == []
    assert any("pushing" in text for text in said)
    assert result.figures == () and result.plot is None


def test_a_real_phone_has_figures(plug: Plug, phone_bundle: Path) -> None:
    phone = plug()
    phone.set_properties(ro_boot_qemu="0")
    figures = {f.name: f.median for f in bench(phone_bundle, f"adb:{phone.serial}", **SHORT).figures}
    assert figures["TTFT"] == pytest.approx(10) and figures["decode"] == pytest.approx(500)
    assert figures["peak RSS"] == 50 and figures["RSS over idle"] == 30
