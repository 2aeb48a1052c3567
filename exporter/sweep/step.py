"""One step of a sweep: an edgec command in its own process, whose result or error becomes plain data.

A step runs wherever an engine sends it, so it is a module-level function of plain arguments.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SweepStep:
    """``key``: of the export or cell; ``words``: after ``edgec``, without ``--json``; ``limit_s``: a time limit."""

    key: str
    words: tuple[str, ...]
    limit_s: float


@dataclass(frozen=True)
class Done:
    """How a step ended: ``answer`` is the JSON it printed; ``error`` is None, or the fields of an error."""

    key: str
    answer: dict[str, Any]
    error: dict[str, Any] | None


def run_step(step: SweepStep) -> Done:
    """Run a step; errors become data, nothing is raised."""
    line = [sys.executable, "-m", "edgec", *step.words, "--json"]
    try:
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False, timeout=step.limit_s)
    except subprocess.TimeoutExpired:
        return Done(step.key, {}, _error("E561", f"it did not end within {step.limit_s:g} s"))
    except OSError as cause:
        return Done(step.key, {}, _error("E561", f"it cannot be started: {cause}"))
    answer = _last_object(done.stdout.splitlines())
    if "error" in answer and "figures" not in answer:
        return Done(step.key, {}, answer["error"])
    if done.returncode != 0:
        why = " ".join(done.stderr.strip().splitlines()[-3:])[-400:]
        return Done(step.key, {}, _error("E561", f"exit status {done.returncode}: {why}"))
    return Done(step.key, answer, None)


def _error(code: str, why: str) -> dict[str, Any]:
    return {"code": code, "what": "A step of the sweep ended without a result.", "why": why}


def _last_object(lines: Sequence[str]) -> dict[str, Any]:
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return {}
