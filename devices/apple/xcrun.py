"""Apple's command line tools: calls with a time limit, JSON found among other text, refusals as typed errors."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from edgec.devices.apple.refusals import Link, chain, refusal
from edgec.errors import InputError, ToolError

PROGRAM = "xcrun"
CALL_S = 300.0


def has_xcode() -> bool:
    """Whether there is an xcrun."""
    return shutil.which(PROGRAM) is not None


def json_object(text: str) -> dict[str, Any]:
    """The JSON object among progress text: from a ``{`` that begins one to the end of it; empty when there is none."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            value = None
        if isinstance(value, dict) and value:
            return value
        start = text.find("{", start + 1)
    return {}


def devicectl(words: Sequence[str], where: str, doing: str) -> dict[str, Any]:
    """The ``result`` of one devicectl command.

    Args:
        words: behind ``xcrun devicectl``.
        where: the device, for errors.
        doing: what fails, for errors.

    Raises:
        ToolError: E552 no Xcode, E557 it failed.
        InputError: E541, E544, E553 to E555: what it refused.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder) / "answer.json"
        done = call(["devicectl", *words, "--quiet", "--json-output", str(target)], where)
        answer = json_object(target.read_text(errors="replace") if target.exists() else "") or json_object(done.stdout)
    error = answer.get("error")
    if isinstance(error, dict):
        raise refusal(list(chain(error)), where, doing)
    if done.returncode != 0 or not answer:
        raise refusal([Link("", 0, (done.stderr or done.stdout).strip()[-400:])], where, doing)
    result = answer.get("result")
    return result if isinstance(result, dict) else {}


def simctl(words: Sequence[str], where: str, doing: str) -> str:
    """What one simctl command printed.

    Raises:
        ToolError: E552, E557.
        InputError: E541, E544.
    """
    done = call(["simctl", *words], where)
    if done.returncode != 0:
        raise refusal([Link("", 0, done.stderr.strip()[-400:])], where, doing)
    return done.stdout


def call(words: Sequence[str], where: str, limit_s: float = CALL_S) -> subprocess.CompletedProcess[str]:
    """One call of xcrun.

    Raises:
        ToolError: E552.
        InputError: E544, it did not end.
    """
    if not has_xcode():
        raise no_xcode(where)
    try:
        return subprocess.run(
            [PROGRAM, *words], capture_output=True, text=True, errors="replace", check=False, timeout=limit_s
        )
    except subprocess.TimeoutExpired as cause:
        why, fix = f"xcrun {words[0]} did not end within {limit_s:g} s", "unlock the device, reconnect it, run again"
        raise InputError("The device does not answer.", where, why, fix, "E544") from cause


def no_xcode(where: str) -> ToolError:
    """E552."""
    return ToolError(
        "Xcode's command line tools are not here.",
        where=where,
        why="there is no xcrun on the path",
        fix='use a Mac with Xcode, or pip install "edgec[ios]" and an app built on one: EDGEC_BENCH_APP=APP.ipa',
        code="E552",
    )
