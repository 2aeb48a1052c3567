"""Where Swift cannot be installed, its tests are skipped with the reason."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.apps import swift_toolchain


@pytest.mark.parametrize(
    ("user", "absent", "reason"),
    [
        (1000, "", "chroot needs root"),
        (0, "unshare", "unshare is not installed"),
        (0, "debootstrap", "debootstrap is not installed"),
    ],
)
def test_what_is_missing_is_named(
    user: int, absent: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(swift_toolchain, "ROOT", tmp_path / "swift")
    monkeypatch.setattr(shutil, "which", lambda name: None if name == absent else f"/bin/{name}")
    assert swift_toolchain.missing.__wrapped__() == reason
