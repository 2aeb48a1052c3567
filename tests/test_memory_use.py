"""Memory as Linux and macOS count it; the second is stood in."""

from __future__ import annotations

import os
import resource
import sys
from types import SimpleNamespace

import pytest

from edgec import memory_use


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_peak_is_in_bytes(monkeypatch: pytest.MonkeyPatch, system: str, unit: int) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=3_000_000))
    assert memory_use.peak_bytes() == 3_000_000 * unit


def test_the_real_peak_is_about_what_the_kernel_tells_otherwise() -> None:
    told = memory_use.resident_bytes()
    assert 0.5 * told < memory_use.peak_bytes() and memory_use.peak_bytes() < 100e9


def test_who_waits_for_a_process_looks_where_the_kernel_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not memory_use.exceeds_memory(os.getpid(), 1), "Linux keeps the limit itself"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory_use.exceeds_memory(os.getpid(), 1)
    assert not memory_use.exceeds_memory(os.getpid(), 1 << 50)
    assert not memory_use.exceeds_memory(999_999_999, 1), "it has ended"
