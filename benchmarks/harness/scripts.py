"""Benchmarks that are separate scripts: each runs in a process with a time limit, and its JSON is kept as it is."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.bench import Bench, Fields
from benchmarks.harness.processes import ProcessFailed, run


@dataclass(frozen=True)
class Script:
    """A script of ``benchmarks/`` that prints one JSON object; it is stopped after three times its expected time.

    Attributes:
        expected_s: seconds on an idle machine of two cores.
    """

    name: str
    arguments: tuple[str, ...]
    expected_s: float


SCRIPTS = (
    Script("attention_kernel", ("--json",), 90),
    Script("speculation", ("--json",), 120),
    Script("prefix", ("--json",), 130),
    Script("several_sessions", ("--json",), 60),
    Script("plan_accuracy", ("--json",), 40),
    Script("litert", ("--json",), 240),
)
_PATIENCE = 3


def run_script(script: Script, bench: Bench) -> Fields:
    """Run a script, and return its object under its name."""
    bench.say(f"benchmarks/{script.name}.py")
    command = [sys.executable, "-m", f"benchmarks.{script.name}", *script.arguments]
    try:
        result = bench.once(
            {"arguments": script.arguments},
            lambda: _object(run(command, timeout_s=_PATIENCE * script.expected_s).stdout),
        )
    except ProcessFailed as failed:
        bench.fail(script.name, str(failed))
        return {}
    return {"scripts": [(script.name, result)]}


def _object(text: str) -> Any:
    """The JSON object that a script printed; libraries may have written before it."""
    return json.loads(text[text.index("{") :])
