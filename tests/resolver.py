"""``python -m tests.resolver``: uv's answers for each system, Python and extra, the table of docs/install.md.

It needs the package index and the package uv. Wheels alone count but for adbutils, whose source is Python alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
PYTHONS: Final = ("3.11", "3.12", "3.13")
SYSTEMS: Final[Mapping[str, str]] = {
    "macOS 14, arm64": "aarch64-apple-darwin",
    "Linux, arm64": "aarch64-manylinux_2_35",
    "Linux, x86-64": "x86_64-manylinux_2_35",
}
CORE: Final = ""


def extras() -> list[str]:
    """The extras of pyproject.toml."""
    return list(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])


def unresolved(uv: str, system: str, python: str, extra: str = CORE, macos: str = "14.0") -> str:
    """Why edgec with an extra cannot be installed on a system; empty where every package has a version that fits.

    Args:
        uv: the program.
        system: of ``SYSTEMS``.
        python: as ``3.11``.
        extra: empty for edgec alone.
        macos: the oldest version of macOS that the wheels must run on.
    """
    wheels = ("--only-binary", ":all:", "--no-binary", "adbutils", "--system-certs", "--quiet", "--no-header")
    place = ("--python-platform", SYSTEMS[system], "--python-version", python)
    line = [uv, "pip", "compile", *wheels, *place, *(["--extra", extra] if extra else []), str(PROJECT)]
    environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": macos}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    return " ".join(done.stderr.split()) if done.returncode else ""


def main(words: Sequence[str] | None = None) -> int:
    """Print the table, a row for each extra; the reasons of what cannot be installed follow."""
    parser = argparse.ArgumentParser(prog="python -m tests.resolver", description=__doc__)
    parser.add_argument("--uv", default="uv")
    parser.add_argument("extras", nargs="*", help="all, where none is named")
    given = parser.parse_args(words)
    reasons = []
    print(f"| | {' | '.join(SYSTEMS)} |\n|---|{'---|' * len(SYSTEMS)}")
    for extra in given.extras or [CORE, *extras()]:
        cells = []
        for system in SYSTEMS:
            said = {python: unresolved(given.uv, system, python, extra) for python in PYTHONS}
            cells.append(", ".join(python for python, why in said.items() if not why) or "none")
            reasons += [f"{extra or 'edgec'}, {system}, {python}: {why}" for python, why in said.items() if why]
        print(f"| {f'`{extra}`' if extra else 'edgec'} | {' | '.join(cells)} |", flush=True)
    print("", *reasons, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
