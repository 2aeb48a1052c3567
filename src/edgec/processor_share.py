"""How torch's threads behave in edgec's processes: waiting ones sleep, and a container has no more than its share.

GNU OpenMP, which torch computes with, reads these variables once, when it is loaded; so they are set when edgec is
imported, and never over what the user has set. Threads that spin for one without a core cost most: with two other
processes on two cores, `edgec export examples/tiny-stories` took 186 s, and 36 s with threads that sleep.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path

WAIT, THREADS = "OMP_WAIT_POLICY", "OMP_NUM_THREADS"
_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def take_share(variables: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of OpenMP that the user has not set."""
    variables.setdefault(WAIT, "passive")
    quota = quota_cores()
    if THREADS not in variables and quota is not None and quota < available_cores():
        variables[THREADS] = str(max(1, int(quota)))


def available_cores() -> int:
    """The cores that this process may run on."""
    if sys.platform == "darwin":
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))


def stay_on(cores: Sequence[int]) -> None:
    """Let this process run on some cores alone.

    Raises:
        InputError: E156, the system cannot, or a core does not exist.
    """
    # This module is imported with edgec itself, before anything can end an interruption well.
    from edgec.errors import InputError

    if sys.platform == "darwin":
        why = "macOS moves threads between cores as it sees fit"
        raise InputError("Cores cannot be chosen on this system.", "--cores", why, "leave it out", "E156")
    try:
        os.sched_setaffinity(0, cores)
    except OSError as cause:
        fix = f"this machine has the cores {sorted(os.sched_getaffinity(0))}"
        raise InputError(f"{list(cores)} names cores that do not exist.", "--cores", str(cause), fix, "E156") from cause


def quota_cores(groups: Path = _GROUPS, own: Path = _OWN) -> float | None:
    """The processor time that control groups give to this process, in cores; None without a limit.

    Args:
        groups: where control groups (version 2) are mounted.
        own: the file that says which group this process is in.
    """
    try:
        inside = own.read_text().rpartition("::")[2].strip().strip("/")
    except OSError:
        return None
    folder = groups / inside
    limits = [_limit(each / "cpu.max") for each in (folder, *folder.parents) if each.is_relative_to(groups)]
    return min((limit for limit in limits if limit is not None), default=None)


def _limit(file: Path) -> float | None:
    """The cores of a ``cpu.max``: microseconds of processor time in each period of so many, or "max"."""
    try:
        time, period = file.read_text().split()
        return int(time) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
