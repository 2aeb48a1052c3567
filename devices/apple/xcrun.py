"""Apple's command line tools: calls within limits of time and size, JSON among other text, refusals as typed errors."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from edgec.devices.answers import MOST_JSON, AnswerFault, json_among, plain, printable
from edgec.devices.apple.refusals import ErrorLink, chain, refusal
from edgec.errors import InputError, ToolError

PROGRAM = "xcrun"
CALL_S = 300.0


def has_xcode() -> bool:
    """Whether there is an xcrun."""
    return shutil.which(PROGRAM) is not None


def json_object(text: str, where: str, doing: str) -> dict[str, Any]:
    """The JSON object among progress text; empty when there is none.

    Raises:
        ToolError: E557, it is outside the limits of an answer.
    """
    try:
        found: dict[str, Any] = json_among(text, "{") or {}
    except AnswerFault as cause:
        fix = "update Xcode; disconnect the other devices to find the one that answers so"
        raise ToolError(f"{doing} gave an answer that cannot be used.", where, str(cause), fix, "E557") from cause
    return found


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
        answer = json_object(file_text(target), where, doing) or json_object(done.stdout, where, doing)
    error = answer.get("error")
    if isinstance(error, dict):
        raise refusal(list(chain(error)), where, doing)
    if done.returncode != 0 or not answer:
        raise refusal([ErrorLink("", 0, plain((done.stderr or done.stdout)[-400:]))], where, doing)
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
        raise refusal([ErrorLink("", 0, plain(done.stderr[-400:]))], where, doing)
    return done.stdout


def call(words: Sequence[str], where: str, limit_s: float = CALL_S) -> subprocess.CompletedProcess[str]:
    """One call of xcrun.

    Raises:
        ToolError: E552.
        InputError: E544, it did not end.
    """
    if not has_xcode():
        raise no_xcode(where)
    return called([PROGRAM, *words], where, limit_s)


def called(words: Sequence[str], where: str, limit_s: float = CALL_S) -> subprocess.CompletedProcess[str]:
    """One call of a program; of each output the first ``MOST_JSON`` bytes, without terminal escapes.

    Raises:
        InputError: E544, it did not end.
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
    """The first ``MOST_JSON`` bytes of a file without terminal escapes; empty where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return _text(file)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return printable(file.read(MOST_JSON).decode(errors="replace"))


def no_xcode(where: str) -> ToolError:
    """E552."""
    return ToolError(
        "Xcode's command line tools are not here.",
        where=where,
        why="there is no xcrun on the path",
        fix='use a Mac with Xcode, or pip install "edgec[ios]" and an app built on one: EDGEC_BENCH_APP=APP.ipa',
        code="E552",
    )
