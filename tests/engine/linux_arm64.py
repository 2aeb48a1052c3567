"""Debian for arm64 in a folder, under qemu's emulation of its programs: a Python there, with edgec's wheel.

Debian's packages are unpacked, not set up, so that nothing of it runs as a system: its Python does, with qemu as its
processor, and with what edgec needs to execute a bundle; PyTorch, which ends with a signal under qemu 7.2, is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# What `edgec run`, `serve` and `verify` import, and the libraries of ExecuTorch that the engine is linked with.
PACKAGES: Final = (
    *("numpy", "pydantic", "rich", "safetensors", "tokenizers", "typer", "psutil", "jinja2", "packaging"),
    *("starlette>=1.0", "uvicorn>=0.50"),
)
_PLATFORM: Final = ("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_17_aarch64")
# A program that Debian's Python starts as `sys.executable` is started by this machine, which knows no arm64.
_WRAPPER: Final = """#!/bin/sh
exec {qemu} -L {root} -E PYTHONPATH={started}:{site} {root}/usr/bin/python3.11 "$@"
"""


@dataclass(frozen=True)
class EmulatedPython:
    """Debian's Python for arm64.

    Attributes:
        program: a script of this machine that calls it.
        site: the folder of its packages.
    """

    program: Path
    site: Path

    def edgec(self, words: Sequence[str], folder: Path) -> subprocess.Popen[str]:
        """Start the command line of edgec in a folder, with a cache there."""
        environment = {**os.environ, "EDGEC_CACHE_DIR": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        line = [str(self.program), "-m", "edgec", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=folder, env=environment, text=True, stdout=pipe, stderr=pipe)

    def said(self, words: Sequence[str], folder: Path) -> str:
        """What a command of edgec prints."""
        done = self.edgec(words, folder)
        out, errors = done.communicate()
        assert done.returncode == 0, errors[-3000:]
        return out


def emulated_python(wheel: Path, folder: Path, qemu: str) -> EmulatedPython:
    """Make the system with edgec's wheel in an empty folder."""
    root, site, started = folder / "root", folder / "site", folder / "started"
    included = ("--include", "python3,libstdc++6")
    line = ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", *included, "bookworm", str(root)]
    subprocess.run(line, check=True, capture_output=True)
    for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)
    _install([*PACKAGES], site)
    _install(["--no-deps", "executorch==1.5.1", str(wheel)], site)
    started.mkdir()
    program = folder / "python"
    program.write_text(_WRAPPER.format(qemu=qemu, root=root, started=started, site=site))
    program.chmod(0o755)
    (started / "sitecustomize.py").write_text(f"import sys\n\nsys.executable = {str(program)!r}\n")
    return EmulatedPython(program, site)


def _install(words: Sequence[str], site: Path) -> None:
    """Install wheels of another processor's; pip reads this machine's markers, and takes its tags from the command."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary=:all:"]
    tags = (*_PLATFORM, "--platform", "manylinux_2_35_aarch64", "--python-version", "3.11")
    subprocess.run([*pip, *tags, "--target", str(site), *words], check=True)
