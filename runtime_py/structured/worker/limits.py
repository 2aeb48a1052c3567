"""What a process that holds texts may take."""

from __future__ import annotations

import math
import resource
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

CPU_SECONDS: Final = 5
# Of one text: to begin with, and for each token on the average. A mask takes 0.02 ms, the slowest in thousands 50.
TEXT_SECONDS: Final = 5.0
TOKEN_SECONDS: Final = 0.1
MEMORY_BYTES: Final = 2 << 30
# The library recurses: on the usual 8 MiB a chain of 700 references is the most.
STACK_BYTES: Final = 256 << 20
# By the clock, where the machine has much else to do; starting includes reading the vocabulary.
JOB_S: Final = 60.0
START_S: Final = 120.0

TOO_MUCH_MEMORY: Final = f"it needed more than {MEMORY_BYTES >> 20:,} MiB of memory"
_ENDED_BY: Final[Mapping[int, str]] = {
    signal.SIGXCPU: f"it needed more than {CPU_SECONDS} s of processor time",
    signal.SIGSEGV: "it is nested too deeply for the library",
    signal.SIGBUS: "it is nested too deeply for the library",
    signal.SIGABRT: TOO_MUCH_MEMORY,
}


def limit_process() -> None:
    """Limit this process's memory, and leave no image of it where it dies."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)


def limit_job() -> None:
    """Let this process compute for so many seconds from now on."""
    _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + CPU_SECONDS)


def told_end(code: int) -> str:
    """Why a process ended, by what `os.waitstatus_to_exitcode` gives."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    return _ENDED_BY.get(-code, f"its process was ended by {signal.Signals(-code).name}")


def _limit(kind: int, value: int) -> None:
    """Set a soft limit; macOS has all of them but that of address space, which `processes` looks after there."""
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))
