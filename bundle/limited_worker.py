"""The other side of `edgec.bundle.limited_process`: a line of JSON in, one out, under limits that the kernel keeps."""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

MEMORY_BYTES: Final = 2 << 30
JobAnswer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def answer_lines(answer: Callable[[], JobAnswer]) -> None:
    """JobAnswer each line of stdin until it ends; ``answer`` is made, with its imports, before there are limits."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever else is printed is not an answer
    made = answer()
    _limit(resource.RLIMIT_CORE, 0)
    for line in sys.stdin.buffer:
        job = json.loads(line)
        _limit(resource.RLIMIT_AS, job.get("memory_bytes", MEMORY_BYTES))
        _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + job["seconds"]))
        answers.write(json.dumps(_limited(made, job)) + "\n")
        answers.flush()


def _limited(answer: JobAnswer, job: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return answer(job)
    except MemoryError:
        return too_much_memory(job.get("memory_bytes", MEMORY_BYTES))


def too_much_memory(most: int) -> Mapping[str, str]:
    """The answer to a job that needed more than ``most`` bytes."""
    return {"limit": f"it needed more than {most >> 20:,} MiB of memory"}


def _limit(kind: int, value: int) -> None:
    """Set a soft limit; macOS has all of them but that of address space, which `limited_process` looks after there."""
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))
