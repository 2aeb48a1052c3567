"""Targets of ``tests/engine/CMakeLists.txt``, kept in ``build/`` and compiled again where a source changed."""

from __future__ import annotations

import fcntl
import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from edgec.engine.compile.abi import NATIVE, Abi
from edgec.engine.compile.build import SOURCES, RunnerBuild, find_toolchain
from edgec.engine.compile.cmake import CMakeProject
from tests.conftest import COMPILED

INCLUDES = (f"-I{SOURCES}", f"-I{SOURCES / 'include'}")
"""The flags for what is compiled as an app's package compiles it, without CMake."""


def substitutes() -> tuple[str, ...]:
    """The flags with which a processor without AVX-VNNI has that kernel, by the same instruction of AVX-512."""
    return () if "avx_vnni" in _features() else ("-DEDGEC_AVX_VNNI_BY_AVX512",)


def _features() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().split() if path.exists() else []


PARTS = replace(NATIVE, name="parts", further_flags=substitutes())
"""This machine, with all kernels that it can execute."""


@cache
def compiled(target: str, abi: Abi = PARTS, built: RunnerBuild | None = None) -> Path:
    """A target's library or program.

    Args:
        target: its name.
        abi: what it is compiled for, and with which flags.
        built: the engine, for targets that are linked with it.
    """
    definitions = find_toolchain(abi).definitions()
    digest = hashlib.sha256(repr(sorted(definitions.items())).encode()).hexdigest()[:12]
    folder = COMPILED / f"tests-{abi.name.strip('-').partition('=')[0]}-{digest}"
    engine = {} if built is None else {"EDGEC_BUILT": str(built.folder)}
    project = CMakeProject(Path(__file__).parent, folder, {**definitions, **engine})
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if engine or not (folder / "build.ninja").exists():
            project.configure()
        project.compile(lambda done, files: None, target)
    library = folder / f"lib{target}.so"
    return library if library.exists() else folder / target
