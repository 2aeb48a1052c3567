"""Calls of Apple's command line tools: limited in time and size, with JSON answers and refusals as typed errors."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from edgec.devices.answers import MOST_JSON, AnswerFault, json_among, plain, printable
from edgec.devices.apple.refusals import ErrorLink, chain, refusal, xcode_fault
from edgec.errors import InputError, ToolError

PROGRAM = "xcrun"
CALL_S = 300.0


def has_xcode() -> bool:
    """Whether Xcode's ``xcrun`` is installed."""
    return shutil.which(PROGRAM) is not None


def json_object(text: str, where: str, doing: str) -> dict[str, Any]:
    """The JSON object in a text that also holds progress messages; empty when there is none.

    Raises:
        ToolError: E557, it is outside the limits of an answer.
    """
    try:
        answer: dict[str, Any] = json_among(text, "{") or {}
    except AnswerFault as cause:
        fix = "update Xcode; disconnect the other devices to find the one that gives this answer"
        raise ToolError(f"{doing} gave an answer that cannot be used.", where, str(cause), fix, "E557") from cause
    return answer


def devicectl(words: Sequence[str], where: str, doing: str) -> dict[str, Any]:
    """Run one devicectl command and return its ``result``.

    Args:
        words: the arguments after ``xcrun devicectl``.
        where: the device, for errors.
        doing: what is being done, for errors.

    Raises:
        ToolError: E552 no Xcode, E557 it failed.
        InputError: E541, E544, E553 to E555: devicectl refused it.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder) / "answer.json"
        done = call(["devicectl", *words, "--quiet", "--json-output", str(target)], where)
        answer = json_object(file_text(target), where, doing) or json_object(done.stdout, where, doing)
    error = answer.get("error")
    if isinstance(error, dict):
        raise refusal(list(chain(error)), where, doing)
    if done.returncode != 0 or not answer:
        raise refusal([ErrorLink("", 0, plain((done.stderr or done.stdout)[-400:]))], where, doing)
    result = answer.get("result")
    return result if isinstance(result, dict) else {}


def simctl(words: Sequence[str], where: str, doing: str) -> str:
    """Run one simctl command and return what it printed.

    Raises:
        ToolError: E552, E557.
        InputError: E541, E544.
    """
    done = call(["simctl", *words], where)
    if done.returncode != 0:
        raise refusal([ErrorLink("", 0, plain(done.stderr[-400:]))], where, doing)
    return done.stdout


def call(words: Sequence[str], where: str, limit_s: float = CALL_S) -> subprocess.CompletedProcess[str]:
    """Call xcrun within limits of time and output.

    Raises:
        ToolError: E552, Xcode is not installed; E921, it is not the one in use, or its licence is not accepted.
        InputError: E544, the call did not end in time.
    """
    if not has_xcode():
        raise no_xcode(where)
    done = called([PROGRAM, *words], where, limit_s)
    if done.returncode != 0 and (fault := xcode_fault(done.stderr, where)) is not None:
        raise fault
    return done


def called(words: Sequence[str], where: str, limit_s: float = CALL_S) -> subprocess.CompletedProcess[str]:
    """Call a program once; returns the first ``MOST_JSON`` bytes of each output, without terminal escapes.

    Raises:
        InputError: E544, it did not end in time.
    """
    with TemporaryFile() as stdout, TemporaryFile() as stderr:
        try:
            done = subprocess.run(words, stdout=stdout, stderr=stderr, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired as cause:
            why = f"{' '.join(words[:2])} did not end within {limit_s:g} s"
            fix = "unlock the device, reconnect it, run again"
            raise InputError("The device does not answer.", where, why, fix, "E544") from cause
        return subprocess.CompletedProcess(words, done.returncode, _text(stdout), _text(stderr))


def file_text(path: Path) -> str:
    """The first ``MOST_JSON`` bytes of a file, without terminal escapes; empty where there is no file."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return _text(file)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return printable(file.read(MOST_JSON).decode(errors="replace"))


def no_xcode(where: str) -> ToolError:
    """E552: Xcode's command line tools are not installed."""
    return ToolError(
        "Xcode's command line tools are not installed.",
        where=where,
        why="xcrun is not on the path",
        fix='use a Mac with Xcode, or pip install "edgec[ios]" and an app built on one: EDGEC_BENCH_APP=APP.ipa',
        code="E552",
    )
