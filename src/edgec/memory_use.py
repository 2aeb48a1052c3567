"""How much memory a process takes, and how that is limited: one place for what Linux and macOS answer differently."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_KIB: Final = 1024


def peak_bytes() -> int:
    """The highest resident size of this process so far: of `ru_maxrss`, KiB on Linux and bytes on macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else _KIB)


def begin_peak() -> bool:
    """Let the peak that `peak_since_begun` tells begin now; whether the kernel can."""
    with suppress(OSError):
        _CLEAR.write_text("5")
        return True
    return False


def peak_since_begun() -> int:
    """The highest resident size since `begin_peak`."""
    return _status_bytes("VmHWM")


def resident_bytes() -> int:
    """The resident size of this process now, by Linux."""
    return _status_bytes("VmRSS")


def _status_bytes(field: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * _KIB


def kernel_limits_memory() -> bool:
    """Whether `RLIMIT_AS` holds: macOS takes it and enforces nothing, so that whoever waits for a process must look."""
    return sys.platform != "darwin"


def exceeds_memory(process: int, most: int) -> bool:
    """Whether a process of this user takes more than ``most`` bytes now, where the kernel sets it no limit."""
    if kernel_limits_memory():
        return False
    import psutil

    with suppress(psutil.Error):
        return psutil.Process(process).memory_info().rss > most
    return False
