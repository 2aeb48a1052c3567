"""Qualcomm's SDK where the user has it: found by ``QNN_SDK_ROOT``, and of the version that ExecuTorch was made for.

ExecuTorch fetches an SDK by itself where the variable is not set. edgec does not let it: the SDK has a licence that its
user accepts, and an export downloads nothing but models.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgec.errors import ToolError

ROOT = "QNN_SDK_ROOT"
LIBRARY = Path("lib", "x86_64-linux-clang", "libQnnHtp.so")
_SEARCHED = "LD_LIBRARY_PATH"
_ASK_S = 120
_NUMBER = re.compile(r"v?(\d+)\.(\d+)")
_OTHER_WAY = "export without --format pte, which needs no SDK"


@dataclass(frozen=True)
class Versions:
    """The SDK version that ExecuTorch was made for, and the version that the installed SDK's library reports."""

    made_for: str
    build: str

    @property
    def fit(self) -> bool:
        """Whether major and minor version agree: with 2.51 instead of 2.37 ExecuTorch's options are refused."""
        wanted, installed = _NUMBER.match(self.made_for), _NUMBER.match(self.build)
        return wanted is not None and installed is not None and wanted.groups() == installed.groups()


def fitting_sdk() -> Path:
    """The folder of the installed SDK, of the version that ExecuTorch was made for.

    Raises:
        ToolError: E584, there is none or it cannot be loaded; E585, of another version; E586, ExecuTorch has no QNN.
    """
    root = Path(os.environ.get(ROOT, ""))
    if not os.environ.get(ROOT) or not (root / LIBRARY).is_file():
        raise _absent(root)
    reported = versions(root)
    if not reported.fit:
        raise _other_version(root, reported)
    return root


def environment(root: Path) -> Mapping[str, str]:
    """The variables of a process that uses the SDK; libraries are searched for when a process starts."""
    before = os.environ.get(_SEARCHED)
    folders = os.pathsep.join(filter(None, [str((root / LIBRARY).parent), before]))
    return {**os.environ, ROOT: str(root), _SEARCHED: folders}


def versions(root: Path) -> Versions:
    """Ask ExecuTorch and the SDK for their versions, in a separate process.

    Raises:
        ToolError: E584, the SDK's library cannot be loaded; E586, this ExecuTorch has no QNN backend.
    """
    line = [sys.executable, "-m", "edgec.backends.qnn_delegate.versions"]
    done = subprocess.run(
        line, env=environment(root), capture_output=True, text=True, errors="replace", timeout=_ASK_S, check=False
    )
    answer = last_object(done.stdout)
    if "missing" in answer:
        raise _no_backend(str(answer["missing"]))
    if done.returncode != 0 or not answer:
        raise _unloadable(root, done)
    return Versions(str(answer["made_for"]), str(answer["build"]))


def last_object(text: str) -> Mapping[str, object]:
    """The last line that is a JSON object, parsed, or an empty one: Qualcomm's library prints lines as well."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            parsed = json.loads(line)
            return parsed if isinstance(parsed, dict) else {}
    return {}


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """How a process ended, and what it said last."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return f"exit status {done.returncode}: {' '.join(lines[-3:])}"[:400]


def _absent(root: Path) -> ToolError:
    given = os.environ.get(ROOT)
    return ToolError(
        "Qualcomm's SDK, which ExecuTorch's QNN delegate needs, was not found.",
        where=ROOT,
        why=f"there is no {root / LIBRARY}" if given else "the variable is not set",
        fix=f"unpack Qualcomm AI Runtime (qairt) and set {ROOT} to the folder that holds lib/; or {_OTHER_WAY}",
        code="E584",
    )


def _unloadable(root: Path, done: subprocess.CompletedProcess[str]) -> ToolError:
    return ToolError(
        "ExecuTorch cannot load Qualcomm's SDK.",
        where=str(root / LIBRARY),
        why=last_words(done),
        fix=f"install what it needs (Debian: apt install libc++1 libc++abi1 libunwind-14); or {_OTHER_WAY}",
        code="E584",
    )


def _other_version(root: Path, reported: Versions) -> ToolError:
    return ToolError(
        "Qualcomm's SDK is not the version that ExecuTorch's QNN delegate was made for.",
        where=str(root),
        why=f"it is {reported.build}, and ExecuTorch was made for {reported.made_for}",
        fix=f"set {ROOT} to version {'.'.join(reported.made_for.split('.')[:2])}; or {_OTHER_WAY}",
        code="E585",
    )


def _no_backend(why: str) -> ToolError:
    return ToolError(
        "The installed ExecuTorch has no QNN delegate.",
        where="executorch.backends.qualcomm",
        why=why,
        fix=f"install ExecuTorch's wheel for Linux on x86-64, which has it; or {_OTHER_WAY}",
        code="E586",
    )
