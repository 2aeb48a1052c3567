"""How much of a file the kernel holds in memory once nothing reads it any more."""

from __future__ import annotations

import time
from pathlib import Path

from edgec.runtime_py.bench.job import resident_share

# The engine's thread reads 2 MB at a time: a disk that takes longer for them than this is broken.
STILL_S = 0.5


def settled_share(path: Path) -> float:
    """Share of a file's pages in memory, 0..1, which did not change for ``STILL_S`` seconds."""
    share, before = _share(path), -1.0
    while share != before:
        time.sleep(STILL_S)
        share, before = _share(path), share
    return share


def _share(path: Path) -> float:
    share = resident_share(path)
    assert share is not None
    return share
