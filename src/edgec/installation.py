"""This installation of edgec: its version, where it was imported from, and the folder it may fill again at any time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from edgec.errors import InputError

__version__ = "0.1.0"
PACKAGE = Path(__file__).parent
CACHE_FIX = "set EDGEC_CACHE_DIR to a folder that you may write to"


def cache_root() -> Path:
    """``EDGEC_CACHE_DIR``, or ~/.cache/edgec.

    Raises:
        InputError: E121, this user has no home folder, or there is no user of the name after ``~``.
    """
    named = os.environ.get("EDGEC_CACHE_DIR") or "~/.cache/edgec"
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise InputError("The cache has no folder.", named, str(error), CACHE_FIX, "E121") from error


def install_command(extra: str) -> str:
    """The command that installs what an extra of edgec needs, as this installation can run it.

    Of a checkout the extra itself; of a wheel, which pip finds by its file alone, what its metadata requires.
    """
    checkout = PACKAGE.parents[1]
    if PACKAGE.parent.name == "src" and (checkout / "pyproject.toml").is_file():
        return f'pip install -e "{checkout}[{extra}]"'
    needed = " ".join(f'"{each}"' for each in _required(extra))
    return f"pip install {needed}" if needed else f'pip install "edgec[{extra}]"'


def _required(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement

    try:
        every = [Requirement(line) for line in requires("edgec") or ()]
    except PackageNotFoundError:
        return []
    kept = (one for one in every if one.marker is not None and one.marker.evaluate({"extra": extra}))
    only = (one for one in kept if "extra" in str(one.marker))
    return [f"{one.name}{one.specifier}" for one in only]


def child_environment() -> Mapping[str, str]:
    """This process's environment, for a child that imports edgec from the same place."""
    paths = (str(PACKAGE.parent), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run_worker(module: str, job: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a module of edgec's in another process, which gets ``job`` on stdin; what it says is kept.

    Raises:
        subprocess.TimeoutExpired: it did not end in ``limit_s``.
    """
    return subprocess.run(
        [sys.executable, "-m", module],
        input=job,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=limit_s,
        env=child_environment(),
    )
