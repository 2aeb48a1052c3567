"""Run another runtime in a process of its own: what it does with a damaged artifact ends that process alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from edgec.installation import run_worker

_LIMIT_S: Final = 3600


class RunnerFailed(Exception):
    """The process gave no answer; says why."""


def runner_answer(worker: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker, a module that is run, answers to a job: it writes JSON into the file ``answer`` of the job.

    Raises:
        RunnerFailed: it ended without an answer, or did not end.
    """
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        try:
            done = run_worker(worker, json.dumps({**job, "answer": str(answer)}), _LIMIT_S)
        except subprocess.TimeoutExpired as cause:
            raise RunnerFailed(f"the process did not end in {_LIMIT_S / 60:g} minutes") from cause
        if done.returncode != 0 or not answer.exists():
            raise RunnerFailed(_ending(done))
        said: dict[str, Any] = json.loads(answer.read_text())
        return said


def answer_job(answer: Callable[[dict[str, Any]], Mapping[str, Any]]) -> int:
    """What such a worker does: read its job from stdin, and write the answer to the file that it names."""
    job = json.load(sys.stdin)
    Path(job["answer"]).write_text(json.dumps(answer(job)))
    return 0


def _ending(done: subprocess.CompletedProcess[str]) -> str:
    said = [line for line in done.stderr.splitlines() if line.strip()]
    ended = "was ended by a signal" if done.returncode < 0 else f"ended with status {done.returncode}"
    return f"the process {ended}: " + " | ".join(said[-3:])
