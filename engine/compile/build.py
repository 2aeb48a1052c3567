"""The engine and the runner, compiled from ``engine`` on first use and kept in the cache folder.

A build lies in ``runner/SOURCES-COMPILER/`` of the cache. SOURCES is a hash of the sources, the flags, ExecuTorch's
version and, for this machine's own build, its CPU (``-march=native``) and the folder of the ExecuTorch package that it
is linked with, since a build breaks when that folder is deleted. COMPILER is a hash of the compiler, apart from the
first so that a machine that lost its compiler still finds its build. A build for phones holds every library it needs.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from edgec.bundle.atomic import NameTaken, new_folder, typed_os_errors
from edgec.engine.compile.abi import LOADER, NATIVE, Abi, find_compiler
from edgec.engine.compile.arm64_wheel import unpack_wheel
from edgec.errors import ToolError
from edgec.installation import cache_root

SOURCES: Final = Path(__file__).resolve().parents[1]
INCLUDES: Final = (f"-I{SOURCES}", f"-I{SOURCES / 'include'}")
LIBRARY, RUNNER, FACTS = "libedgec.so", "edgec-runner", "build.json"
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-pthread", "-Wall"),
    # Fuse multiply-adds only where the source says so: a compiler's choice may differ between one row and several.
    "-ffp-contract=off",
    *("-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    # The definitions that ExecuTorch's own CMake package asks its users for.
    *("-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
)
LINKED = ("", "_backend_xnnpack", "_kernels_optimized", "_kernels_quantized", "_threadpool")
SENSES: Final = ("vision", "audio")
"""Folders of what apps compile with the engine where their model needs it; the runner has both."""
_IN_BOTH: Final = ("json_text", "method")
JOBS = 2
_LOG_LINES = 12
_KEY_LETTERS = 20


@dataclass(frozen=True)
class RunnerBuild:
    """A compiled engine with its runner.

    Attributes:
        folder: the folder of its files.
        seconds: wall time that this call spent compiling, measured; 0.0 where the build existed already.
        abi: the ABI that it runs on.
    """

    folder: Path
    seconds: float = 0.0
    abi: Abi = NATIVE

    @property
    def library(self) -> Path:
        """The engine as a shared library with a C interface (``edgec/engine.h``)."""
        return self.folder / LIBRARY

    @property
    def runner(self) -> Path:
        """The standalone runner program."""
        return self.folder / RUNNER

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a device needs in one folder, the program last; only for a build that travels."""
        others = (path for path in sorted(self.folder.iterdir()) if path.name not in (RUNNER, FACTS))
        return (*others, self.runner)


def start_line(folder: str, abi: Abi) -> tuple[str, ...]:
    """The command that starts the runner from the build's files in ``folder``; the runner's arguments follow it.

    A phone has no glibc, so its own loader starts it: ``FOLDER/ld-linux-aarch64.so.1 --library-path FOLDER ...``.
    """
    program = f"{folder}/{RUNNER}"
    return (f"{folder}/{LOADER}", "--library-path", folder, program) if abi.travels else (program,)


@dataclass(frozen=True)
class Toolchain:
    """A C++ compiler and the ExecuTorch package that it compiles against."""

    abi: Abi
    compiler: Path
    executorch: Path
    version: str

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of every compilation, besides those of the processor."""
        include = self.executorch / "include"
        portable = include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
        includes = (*INCLUDES, f"-I{include}", f"-I{portable}")
        return (*FLAGS, *includes, f"-DEDGEC_EXECUTORCH_VERSION={self.version}")

    def processor_flags(self, source: Path) -> tuple[str, ...]:
        """The flags that name the processor: none for kernels that state their instructions themselves (isa.h)."""
        chooses = self.abi is NATIVE and source.parent.name == "linear"
        return () if chooses else self.abi.flags


def find_build(root: Path | None = None, abi: Abi = NATIVE) -> RunnerBuild | None:
    """Find an existing build of these sources for this machine or ``abi``; nothing is compiled.

    Args:
        root: the cache folder; None: ``EDGEC_CACHE_DIR``.
        abi: the ABI that it runs on.

    Raises:
        InputError: E121, the cache cannot be read.
    """
    with suppress(ToolError), typed_os_errors(_folder(root)):
        libraries = sorted(_folder(root).glob(f"{_source_key(*_executorch(), abi)}-*/{LIBRARY}"))
        return RunnerBuild(libraries[0].parent, abi=abi) if libraries else None
    return None


def build_runner(
    root: Path | None = None,
    announce: Callable[[str], None] = lambda text: None,
    abi: Abi = NATIVE,
    wheel: Path | None = None,
    compiled: Callable[[int, int], None] = lambda done, files: None,
) -> RunnerBuild:
    """Return the build of these sources, compiling it on first use; two processes never compile at the same time.

    Args:
        root: the cache folder; None: ``EDGEC_CACHE_DIR``.
        announce: called once, before a compilation begins.
        abi: the ABI that it runs on.
        wheel: ExecuTorch's wheel for ``abi``; None: downloaded once. Not for this machine's own build.
        compiled: called before the first and after each source file, with how many are compiled and how many there are.

    Raises:
        ToolError: E311 no compiler, E312 the compiler failed, E301 ExecuTorch is not installed, E571 no wheel.
        InputError: E121 or E122, the cache cannot be written.
    """
    if (known := find_build(root, abi)) is not None:
        return known
    compiler, (installed, version) = find_compiler(abi), _executorch()
    target = _folder(root) / f"{_source_key(installed, version, abi)}-{_compiler_key(compiler)}"
    with _turn(target):
        if (known := find_build(root, abi)) is not None:
            return known
        announce(f"compiling the engine for {'this CPU' if abi is NATIVE else abi.name} with {compiler} (once)")
        start = time.monotonic()
        package = unpack_wheel(abi, version, _folder(root), wheel) if abi.wheel_platform else installed
        with suppress(NameTaken), new_folder(target) as folder:
            _compile_all(Toolchain(abi, compiler, package, version), folder, compiled)
        return RunnerBuild(target, time.monotonic() - start, abi)


def _folder(root: Path | None) -> Path:
    return (root or cache_root()) / "runner"


@contextmanager
def _turn(target: Path) -> Iterator[None]:
    with ExitStack() as held:
        with typed_os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(open(target.with_suffix(".lock"), "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _executorch() -> tuple[Path, str]:
    spec = find_spec("executorch")
    with suppress(PackageNotFoundError):
        if spec is not None and spec.submodule_search_locations:
            # Without symbolic links: the build finds its libraries after the link that led to them is gone.
            return Path(next(iter(spec.submodule_search_locations))).resolve(), version("executorch")
    raise ToolError(
        "The ExecuTorch runtime is not available.",
        where="executorch",
        why="the package executorch is not installed",
        fix="run 'edgec doctor'; install with: pip install executorch==1.5.1",
        code="E301",
    )


@cache
def _source_key(executorch: Path, executorch_version: str, abi: Abi = NATIVE) -> str:
    machine = [] if abi.travels else [*_cpu(), f"linked with {executorch}"]
    digest = hashlib.sha256(repr((FLAGS, abi, LINKED, executorch_version, machine)).encode())
    for path in sorted(path for path in SOURCES.rglob("*") if path.suffix in (".cpp", ".h")):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:_KEY_LETTERS]


def _cpu() -> list[str]:
    """The facts about this CPU that ``-march=native`` depends on."""
    fields = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        return [line for line in lines if line.startswith(fields)]
    return list(os.uname())


def _compiler_key(compiler: Path) -> str:
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return hashlib.sha256(f"{compiler.resolve()}\n{said}".encode()).hexdigest()[:_KEY_LETTERS]


def _compile_all(tools: Toolchain, folder: Path, compiled: Callable[[int, int], None]) -> None:
    library = sorted(path for name in ("kernels", "core", "text") for path in (SOURCES / name).rglob("*.cpp"))
    program = sorted(path for name in ("runner", *SENSES) for path in (SOURCES / name).glob("*.cpp"))
    objects = folder / "objects"
    objects.mkdir()
    sources = (*library, *program)
    compiled(0, len(sources))
    with ThreadPoolExecutor(JOBS) as pool:
        made = []
        for one in pool.map(lambda source: _compile(tools, source, objects), sources):
            made.append(one)
            compiled(len(made), len(sources))
    _link(tools, folder / LIBRARY, made[: len(library)], ("-shared",))
    own = ("-L" + str(folder), "-ledgec", "-Wl,-rpath,$ORIGIN", f"-Wl,-rpath-link,{tools.executorch / 'lib'}")
    flags = ("-pthread", *tools.abi.link_flags)
    # The library shows its C interface alone; the program reads JSON and calls methods as well.
    again = [each for source, each in zip(sources, made, strict=True) if source.stem in _IN_BOTH]
    _call([tools.compiler, *flags, "-o", folder / RUNNER, *made[len(library) :], *again, *own], SOURCES)
    shutil.rmtree(objects)
    if tools.abi.travels:
        _copy_libraries(tools, folder)
    facts = {"compiler": str(tools.compiler), "flags": (*tools.flags, *tools.abi.flags), "executorch": tools.version}
    (folder / FACTS).write_text(json.dumps(facts, indent=1))


def _compile(tools: Toolchain, source: Path, objects: Path) -> Path:
    made = objects / f"{source.parent.name}-{source.stem}.o"
    _call([tools.compiler, *tools.flags, *tools.processor_flags(source), "-c", source, "-o", made], source)
    return made


def _link(tools: Toolchain, target: Path, objects: Sequence[Path], flags: Sequence[str]) -> None:
    """Link a library, keeping all ExecuTorch libraries: they register kernels and backends when loaded."""
    folder = tools.executorch / "lib"
    libraries = [f"-lexecutorch{name}" for name in LINKED]
    where = [f"-L{folder}", "-Wl,-rpath," + ("$ORIGIN" if tools.abi.travels else str(folder))]
    keep = ["-Wl,--no-as-needed"] if sys.platform.startswith("linux") else []
    options = (*flags, *tools.abi.link_flags, "-pthread", *where, *keep)
    _call([tools.compiler, *options, "-o", target, *objects, *libraries], SOURCES)


def _copy_libraries(tools: Toolchain, folder: Path) -> None:
    """Copy ExecuTorch's libraries and the compiler's C library into a build, so that a device needs to have neither."""
    ours = [tools.executorch / "lib" / f"libexecutorch{name}.so" for name in LINKED]
    for path in (*ours, *(_compilers_file(tools.compiler, name) for name in tools.abi.system_libraries)):
        shutil.copy(path.resolve(), folder / path.name)


def _compilers_file(compiler: Path, name: str) -> Path:
    line = [str(compiler), f"-print-file-name={name}"]
    return Path(subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip())


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
