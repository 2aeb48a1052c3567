"""Run another runtime in a process of its own: what it does with a damaged artifact ends that process alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from edgec.installation import child_environment

_LIMIT_S: Final = 3600


class RunnerFailed(Exception):
    """The process gave no answer; says why."""


def runner_answer(worker: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker, a module that is run, answers to a job: it writes JSON into the file ``answer`` of the job.

    Raises:
        RunnerFailed: it ended without an answer.
    """
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        done = subprocess.run(
            [sys.executable, "-m", worker],
            input=json.dumps({**job, "answer": str(answer)}),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LIMIT_S,
            env=child_environment(),
        )
        if done.returncode != 0 or not answer.exists():
            raise RunnerFailed(_ending(done))
        said: dict[str, Any] = json.loads(answer.read_text())
        return said


def _ending(done: subprocess.CompletedProcess[str]) -> str:
    said = [line for line in done.stderr.splitlines() if line.strip()]
    ended = "was ended by a signal" if done.returncode < 0 else f"ended with status {done.returncode}"
    return f"the process {ended}: " + " | ".join(said[-3:])
