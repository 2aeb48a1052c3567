"""Pages of a file, with the calls of macOS stood in."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgec import page_cache


def test_on_a_mac_the_whole_mapped_file_is_invalidated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, calls = tmp_path / "file", list[tuple[bytes, int]]()
    path.write_bytes(b"edgec" * 10_000)

    def msync(address: ctypes.c_void_p, size: ctypes.c_size_t, flags: int) -> int:
        calls.append((ctypes.string_at(address.value or 0, size.value), flags))
        return 0

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(page_cache, "c_library", lambda: SimpleNamespace(msync=msync))
    page_cache.drop_pages(path)
    assert calls == [(path.read_bytes(), 2)]
    assert page_cache.resident_share(path) is None, "a C library without mincore"


def test_shares_are_counted_in_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\0" * 10_000)

    def mincore(address: ctypes.c_void_p, size: ctypes.c_size_t, pages: Any) -> int:
        pages[0] = 0b11
        return 0

    monkeypatch.setattr(page_cache, "c_library", lambda: SimpleNamespace(mincore=mincore))
    assert page_cache.resident_share(path) == pytest.approx(1 / -(-10_000 // mmap.PAGESIZE))
    (tmp_path / "empty").touch()
    assert page_cache.resident_share(tmp_path / "empty") is None
