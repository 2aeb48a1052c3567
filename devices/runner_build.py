"""The engine and the runner, compiled from ``devices/runner`` on first use and kept in the cache folder.

A build lies in ``runner/SOURCES-COMPILER/`` of the cache: SOURCES stands for the sources, the flags, ExecuTorch's
version and this CPU (``-march=native``), COMPILER for the compiler. So a machine that lost its compiler still finds its
build.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from edgec.errors import ToolError
from edgec.exporter.bundle.atomic import NameTaken, new_folder
from edgec.exporter.stage_cache import default_root

SOURCES: Final = Path(__file__).resolve().parent / "runner"
LIBRARY, RUNNER, FACTS = "libedgec.so", "edgec-runner", "build.json"
COMPILERS = ("c++", "g++", "clang++")
FLAGS = (
    *("-std=c++17", "-O3", "-march=native", "-fPIC", "-pthread", "-Wall"),
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    # What ExecuTorch's own CMake package asks its users to define.
    *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED", "-DET_USE_THREADPOOL"),
)
LINKED = ("", "_backend_xnnpack", "_kernels_optimized", "_kernels_quantized", "_threadpool")
JOBS = 2
_LOG_LINES = 12
_KEY_LETTERS = 20


@dataclass(frozen=True)
class Build:
    """A compiled engine.

    Attributes:
        folder: where it lies.
        seconds: wall time that this call spent compiling, measured; 0.0 when the build was there.
    """

    folder: Path
    seconds: float = 0.0

    @property
    def library(self) -> Path:
        """The engine with its C interface (``engine/c_api.h``)."""
        return self.folder / LIBRARY

    @property
    def runner(self) -> Path:
        """The standalone program."""
        return self.folder / RUNNER


@dataclass(frozen=True)
class Toolchain:
    """A C++ compiler and the ExecuTorch package it compiles against."""

    compiler: Path
    executorch: Path
    version: str

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of every compilation."""
        include = self.executorch / "include"
        portable = include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
        return (*FLAGS, f"-I{SOURCES}", f"-I{include}", f"-I{portable}", f'-DEDGEC_EXECUTORCH_VERSION="{self.version}"')


def find_build(root: Path | None = None) -> Build | None:
    """The build of these sources for this machine, if it was made before; nothing is compiled.

    Args:
        root: the cache folder; None: ``EDGEC_CACHE_DIR``.
    """
    with suppress(ToolError):
        found = sorted(_folder(root).glob(f"{_source_key(_executorch()[1])}-*/{LIBRARY}"))
        return Build(found[0].parent) if found else None
    return None


def build_runner(root: Path | None = None, announce: Callable[[str], None] = lambda text: None) -> Build:
    """The build, compiled now if it was not before. Two processes do not compile at the same time.

    Args:
        root: the cache folder; None: ``EDGEC_CACHE_DIR``.
        announce: told once, before a compilation begins.

    Raises:
        ToolError: E311 no compiler, E312 the compiler failed, E301 ExecuTorch is not installed.
        InputError: E121 or E122, the cache cannot be written.
    """
    if (known := find_build(root)) is not None:
        return known
    tools = _toolchain()
    target = _folder(root) / f"{_source_key(tools.version)}-{_compiler_key(tools.compiler)}"
    with _turn(target):
        if (known := find_build(root)) is not None:
            return known
        announce(f"compiling the engine for this CPU with {tools.compiler} (once)")
        start = time.monotonic()
        with suppress(NameTaken), new_folder(target) as folder:
            _compile_all(tools, folder)
        return Build(target, time.monotonic() - start)


def _folder(root: Path | None) -> Path:
    return (root or default_root()) / "runner"


@contextmanager
def _turn(target: Path) -> Iterator[None]:
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _executorch() -> tuple[Path, str]:
    spec = find_spec("executorch")
    with suppress(PackageNotFoundError):
        if spec is not None and spec.submodule_search_locations:
            return Path(next(iter(spec.submodule_search_locations))), version("executorch")
    raise ToolError(
        "The ExecuTorch runtime is not available.",
        where="executorch",
        why="the package executorch is not installed",
        fix="run 'edgec doctor'; install with: pip install executorch==1.5.1",
        code="E301",
    )


def _toolchain() -> Toolchain:
    return Toolchain(find_compiler(), *_executorch())


def find_compiler() -> Path:
    """The C++ compiler: ``CXX``, else the first of c++, g++, clang++ on the path.

    Raises:
        ToolError: E311.
    """
    names = (os.environ["CXX"],) if os.environ.get("CXX") else COMPILERS
    found = next(filter(None, map(shutil.which, names)), None)
    if found is not None:
        return Path(found)
    raise ToolError(
        "There is no C++ compiler.",
        where="CXX" if os.environ.get("CXX") else "PATH",
        why=f"looked for {', '.join(names)}; edgec's engine is compiled on this machine",
        fix="install one (Debian: apt install g++), or export with --kernels standard to run without the engine",
        code="E311",
    )


@cache
def _source_key(executorch_version: str) -> str:
    digest = hashlib.sha256(repr((FLAGS, LINKED, executorch_version, _cpu())).encode())
    for path in sorted(path for path in SOURCES.rglob("*") if path.suffix in (".cpp", ".h")):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:_KEY_LETTERS]


def _cpu() -> list[str]:
    """What ``-march=native`` depends on."""
    fields = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        return [line for line in lines if line.startswith(fields)]
    return list(os.uname())


def _compiler_key(compiler: Path) -> str:
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return hashlib.sha256(f"{compiler.resolve()}\n{said}".encode()).hexdigest()[:_KEY_LETTERS]


def _compile_all(tools: Toolchain, folder: Path) -> None:
    library = sorted(path for name in ("kernels", "engine") for path in (SOURCES / name).glob("*.cpp"))
    program = sorted(SOURCES.glob("*.cpp"))
    objects = folder / "objects"
    objects.mkdir()
    with ThreadPoolExecutor(JOBS) as pool:
        made = list(pool.map(lambda source: _compile(tools, source, objects), (*library, *program)))
    _link(tools, folder / LIBRARY, made[: len(library)], ("-shared",))
    own = ("-L" + str(folder), "-ledgec", "-Wl,-rpath,$ORIGIN", f"-Wl,-rpath-link,{tools.executorch / 'lib'}")
    _call([tools.compiler, "-pthread", "-o", folder / RUNNER, *made[len(library) :], *own], SOURCES)
    shutil.rmtree(objects)
    facts = {"compiler": str(tools.compiler), "flags": tools.flags, "executorch": tools.version}
    (folder / FACTS).write_text(json.dumps(facts, indent=1))


def _compile(tools: Toolchain, source: Path, objects: Path) -> Path:
    made = objects / f"{source.parent.name}-{source.stem}.o"
    _call([tools.compiler, *tools.flags, "-c", source, "-o", made], source)
    return made


def _link(tools: Toolchain, target: Path, objects: Sequence[Path], flags: Sequence[str]) -> None:
    """ExecuTorch's libraries register kernels and backends when loaded, so the linker must not drop unused ones."""
    folder = tools.executorch / "lib"
    libraries = [f"-lexecutorch{name}" for name in LINKED]
    where = [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    keep = ["-Wl,--no-as-needed"] if sys.platform.startswith("linux") else []
    _call([tools.compiler, *flags, "-pthread", "-o", target, *objects, *where, *keep, *libraries], SOURCES)


def _call(line: Sequence[str | Path], source: Path) -> None:
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolError(
            "The engine could not be compiled.",
            where=str(source),
            why="\n".join(done.stderr.strip().splitlines()[:_LOG_LINES]) or f"exit status {done.returncode}",
            fix="report it with the compiler's version; until then export with --kernels standard",
            code="E312",
        )
