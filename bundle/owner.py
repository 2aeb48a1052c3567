"""Tell who owns a file or folder: by a lock, or by a process's number and its start, never by the clock.

When a process began is recorded in a form that does not change when somebody sets the clock: on Linux, psutil and `ps`
count from a boot time that moves with the clock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OWNER = r"(?P<process>\d{1,9})[~-](?P<started>[0-9a-z]{1,16})"
"""Matches a process's number and start in a name, with `~` or `-` between them."""
_UNKNOWN = "unknown"
_ENDED = ("Z", "X", "x")
_PS_S = 10.0


def own_mark() -> tuple[str, str]:
    """This process's number and start, for a name that ``owned_by_running`` reads."""
    return str(os.getpid()), process_start(os.getpid()) or _UNKNOWN


def owned_by_running(name: re.Match[str]) -> bool:
    """Whether the very process of a name that holds ``OWNER`` still runs.

    Earlier versions wrote seconds since 1970, which are wrong once the clock is set: there the number alone decides.
    """
    now, started = process_start(int(name["process"])), name["started"]
    return now is not None and (now == started or _UNKNOWN in (now, started) or started.isdigit())


def process_start(process: int) -> str | None:
    """When a process began; None where no process has that number, or it only waits to be reaped.

    Linux: ticks since boot (field 22 of /proc/PID/stat). Elsewhere: the start that the kernel recorded, through `ps`.
    """
    return _ticks(process) if sys.platform.startswith("linux") else _noted(process)


def _ticks(process: int) -> str | None:
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The program's name stands in brackets and may hold any letter.
    state, *fields = text.rpartition(")")[2].split()
    return None if state in _ENDED else f"t{fields[18]}"


def _noted(process: int) -> str | None:
    words = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(process)]
    environment = os.environ | {"LC_ALL": "C", "TZ": "UTC"}
    try:
        said = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_PS_S, env=environment
        ).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        import psutil

        return _UNKNOWN if psutil.pid_exists(process) else None
    if not said or said[0].startswith("Z"):
        return None
    return f"n{hashlib.sha256(' '.join(said[1:]).encode()).hexdigest()[:12]}"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file or folder while the block runs, so that ``is_held`` sees it in other containers too.

    The lock is shared, ends with the process, and is left out where the file system has none.
    """
    descriptor = _opened(path)
    try:
        if descriptor is not None:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether some process holds a file or folder; False also where the system does not say."""
    descriptor = _opened(path)
    if descriptor is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
