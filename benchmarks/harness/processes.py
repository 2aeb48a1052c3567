"""Fresh processes: run one, read its JSON, and ask the kernel for its cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"PYTHONWARNINGS": "ignore"}
_TAIL = 600


class ProcessFailed(Exception):
    """A process ended with an error, or was stopped after its time; the text says which and how."""


@dataclass(frozen=True)
class Cost:
    """The cost of one process and its children, by the kernel's account (``wait4``).

    Its peak of memory is not here: on Linux a process begins with the peak of the one that started it.

    Attributes:
        wall_s: seconds from start to end.
        cpu_s: user and system time.
    """

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Done:
    """A process that succeeded: its stdout and its cost."""

    stdout: str
    cost: Cost

    def json(self) -> dict[str, Any]:
        """The last line of stdout, read as JSON."""
        result: dict[str, Any] = json.loads(self.stdout.strip().splitlines()[-1])
        return result


def run(
    command: Sequence[str | Path],
    *,
    stdin: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Done:
    """Run a command from the repository's root and wait for it.

    Args:
        command: program and arguments; no shell is involved.
        stdin: sent as JSON.
        environment: variables added to this process's own.
        timeout_s: seconds after which it and its children are killed.

    Raises:
        ProcessFailed: its exit status was not 0, or its time was up.
    """
    with _file() as given, _file() as out, _file() as err:
        json.dump(stdin, given)
        given.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        status, usage, late = _wait(process, timeout_s)
        cost = Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)
        if status != 0:
            raise ProcessFailed(_why(command, status, late, timeout_s, _read(err) or _read(out)))
        return Done(_read(out), cost)


def _file() -> IO[str]:
    return tempfile.TemporaryFile("w+")


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None) -> tuple[int, Any, bool]:
    """The exit status, the resource usage and whether the time was up; an interruption ends the whole group."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(process.pid)

    alarm = threading.Timer(timeout_s, stop) if timeout_s else None
    try:
        if alarm:
            alarm.start()
        _, raw, usage = os.wait4(process.pid, 0)
    except BaseException:
        _kill(process.pid)
        raise
    finally:
        if alarm:
            alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(raw)
    return process.returncode, usage, late.is_set()


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _read(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


def _why(command: Sequence[str | Path], status: int, late: bool, timeout_s: float | None, said: str) -> str:
    ended = f"was stopped after {timeout_s:.0f} s" if late and timeout_s else f"ended with status {status}"
    return f"{' '.join(map(str, command[:4]))} {ended}: {said.strip()[-_TAIL:]}"


def run_worker(
    module: str,
    job: Mapping[str, Any],
    *,
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> dict[str, Any]:
    """Run ``python -m MODULE`` with a job on stdin and more variables in its environment, and return its JSON.

    Raises:
        ProcessFailed: it did not succeed.
    """
    interpreter = python or Path(sys.executable)
    variables = {**QUIET, "OMP_NUM_THREADS": str(job.get("threads", 1)), **(environment or {})}
    return run([interpreter, "-m", module], stdin=job, environment=variables, timeout_s=timeout_s).json()
