"""What the kernel says of this machine's processor: its name and its instructions."""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

CPUINFO: Final = Path("/proc/cpuinfo")
_BRAND: Final = "machdep.cpu.brand_string"
_TRANSLATED: Final = "sysctl.proc_translated"
# What -march=native and the kernels of ExecuTorch's libraries depend on.
_IDENTITY: Final = ("model name", "flags", "Features", "CPU implementer", "CPU part")


def processor_name() -> str:
    """The processor's name, as `Apple M2` or `AMD EPYC 7B13`."""
    if sys.platform == "darwin":
        return system_text(_BRAND) or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", _first_core(), re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def processor_identity() -> tuple[str, ...]:
    """All that code compiled for just this processor depends on; the same after an update of the system."""
    if sys.platform == "darwin":
        return (platform.machine(), system_text(_BRAND))
    lines = tuple(line for line in _first_core().splitlines() if line.startswith(_IDENTITY))
    return lines or (platform.machine(), platform.processor())


def processor_features() -> frozenset[str]:
    """The instructions that Linux lists for the first core, by its names; none elsewhere."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _first_core(), re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()


def is_translated() -> bool:
    """Whether Rosetta translates this process: a Python for x86-64 on a Mac with Apple's chip."""
    return sys.platform == "darwin" and system_number(_TRANSLATED) == 1


def system_number(name: str) -> int:
    """A number that `sysctl` of macOS knows; 0 where there is none."""
    data = _asked(name)
    return int.from_bytes(data, "little") if data else 0


def system_text(name: str) -> str:
    """A text that `sysctl` of macOS knows; empty where there is none."""
    return _asked(name).split(b"\0")[0].decode(errors="replace")


def _asked(name: str) -> bytes:
    call = _sysctl()
    size = ctypes.c_size_t(0)
    if call is None or call(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return b""
    data = ctypes.create_string_buffer(size.value)
    if call(name.encode(), data, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return b""
    return data.raw[: size.value]


@cache
def _sysctl() -> ctypes._NamedFuncPointer | None:
    return getattr(ctypes.CDLL(None), "sysctlbyname", None)


def _first_core() -> str:
    with suppress(OSError):
        return CPUINFO.read_text().split("\n\n")[0]
    return ""
