"""Damaged checkpoints end in a typed error or are read, each within two seconds of CPU time and 500 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exporter.sources.bounded_reading import COUNTS, CPU_SECONDS, MEMORY

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is Linux's to tell")
def test_320_damaged_checkpoints_are_refused_or_read_within_bounds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.exporter.sources.bounded_reading", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    last = lines[-1] if lines else "nothing"
    assert ran.returncode == 0, f"ended by {ran.returncode} at {last}: {ran.stderr[-1500:]}"
    files, outcomes = lines[::2], lines[1::2]
    assert len(files) == len(outcomes) == sum(COUNTS.values()) >= 300
    for file, told in zip(files, outcomes, strict=True):
        assert told["cpu_s"] < CPU_SECONDS and told["bytes"] < MEMORY, (file, told)
    codes = [told["outcome"] for told in outcomes]
    assert all(code == "read" or code.startswith("E8") or code in KNOWN for code in codes), set(codes)
    # Damage in codes and padding is not visible; headers, settings and scales are.
    assert codes.count("read") > 30 and len(set(codes)) > 12, codes


KNOWN = ("E105", "E106", "E109", "E111", "E112", "E124", "E145")
"""What damaged safetensors and configs are refused with."""
