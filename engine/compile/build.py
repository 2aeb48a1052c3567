"""The engine and the runner, compiled from ``engine`` on first use and kept in the cache folder.

A build lies in ``runner/SOURCES-COMPILER/`` of the cache. SOURCES is a hash of the sources, the flags, ExecuTorch's
version and, for this machine's own build, its CPU (``-march=native``, on Arm ``-mcpu=native``) and the folder of the
ExecuTorch package that it is linked with, since a build breaks when that folder is deleted. COMPILER is a hash of the
compiler, apart from the first so that a machine that lost its compiler still finds its build. A build for phones holds
every library that it needs; one for edgec's wheels is used where it was installed beside ExecuTorch (``shipped``).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from edgec.bundle.atomic import NameTaken, new_folder, typed_os_errors
from edgec.engine.compile.abi import LOADER, NATIVE, Abi, find_compiler
from edgec.engine.compile.cmake import CMakeProject
from edgec.engine.compile.executorch_wheel import unpack_wheel
from edgec.engine.compile.shipped import shipped_folder, why_unused
from edgec.errors import ToolError
from edgec.installation import cache_root
from edgec.processor import processor_identity

SOURCES: Final = Path(__file__).resolve().parents[1]
LIBRARY, RUNNER, FACTS = "libedgec.so", "edgec-runner", "build.json"
LINKED = ("", "_backend_xnnpack", "_kernels_optimized", "_kernels_quantized", "_threadpool")
"""ExecuTorch's libraries, which travel with a phone's build."""
_PROJECT = "CMakeLists.txt"
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

    def definitions(self) -> dict[str, str]:
        """The values of the variables of ``engine/CMakeLists.txt``."""
        return {
            "CMAKE_CXX_COMPILER": ";".join((str(self.compiler), *self.abi.compiler_words)),
            "EXECUTORCH_ROOT": str(self.executorch),
            "EDGEC_EXECUTORCH_VERSION": self.version,
            "EDGEC_PROCESSOR_FLAGS": ";".join(self.abi.flags),
            "EDGEC_FLAGS": ";".join(self.abi.further_flags),
            "EDGEC_LINK_FLAGS": ";".join(self.abi.link_flags),
            "EDGEC_EXECUTORCH_PLACE": self.abi.executorch_place,
            **self.abi.definitions,
        }


def find_toolchain(abi: Abi = NATIVE, root: Path | None = None, wheel: Path | None = None) -> Toolchain:
    """The compiler for ``abi`` with its ExecuTorch package, whose wheel is unpacked on first use.

    Raises:
        ToolError: E311 no compiler, E301 ExecuTorch is not installed, E571 no wheel.
    """
    compiler, (installed, version) = find_compiler(abi), _executorch()
    package = unpack_wheel(abi, version, _folder(root), wheel) if abi.wheel_platform else installed
    return Toolchain(abi, compiler, package, version)


def find_build(root: Path | None = None, abi: Abi = NATIVE) -> RunnerBuild | None:
    """Find an existing build of these sources for this machine or ``abi``; nothing is compiled.

    For this machine the engine that came with edgec's wheel is first.

    Args:
        root: the cache folder; None: ``EDGEC_CACHE_DIR``.
        abi: the ABI that it runs on.

    Raises:
        InputError: E121, the cache cannot be read.
    """
    with suppress(ToolError), typed_os_errors(_folder(root)):
        installed = _executorch()
        if abi is NATIVE and (shipped := shipped_folder(SOURCES, sources_digest(), *installed)) is not None:
            return RunnerBuild(shipped, abi=abi)
        libraries = sorted(_folder(root).glob(f"{_source_key(*installed, abi)}-*/{LIBRARY}"))
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
        ToolError: E311 no compiler, CMake or Ninja, E955 nor does the engine of edgec's wheel fit, E312 the compiler
            failed, E301 ExecuTorch is not installed, E571 no wheel.
        InputError: E121 or E122, the cache cannot be written.
    """
    if (known := find_build(root, abi)) is not None:
        return known
    installed, version = _executorch()
    compiler = _compiler(abi, installed, version)
    target = _folder(root) / f"{_source_key(installed, version, abi)}-{_compiler_key(compiler, abi)}"
    with _turn(target):
        if (known := find_build(root, abi)) is not None:
            return known
        announce(f"compiling the engine for {'this CPU' if abi is NATIVE else abi.name} with {compiler} (once)")
        start = time.monotonic()
        tools = find_toolchain(abi, root, wheel)
        with suppress(NameTaken), new_folder(target) as folder:
            _compile_all(tools, folder, compiled)
        return RunnerBuild(target, time.monotonic() - start, abi)


def engine_fault() -> str:
    """Why the engine that edgec's wheel brings is not used here; empty where there is none, or it is used."""
    with suppress(ToolError):
        return why_unused(SOURCES, sources_digest(), *_executorch())
    return ""


def _compiler(abi: Abi, executorch: Path, version: str) -> Path:
    try:
        return find_compiler(abi)
    except ToolError as lacking:
        why = why_unused(SOURCES, sources_digest(), executorch, version) if abi is NATIVE else ""
        if not why:
            raise
        fix = f"install the wheel of this system; or {lacking.fix}"
        raise ToolError("The engine in edgec's wheel does not fit.", str(SOURCES), why, fix, "E955") from lacking


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
    machine = [] if abi.system else [*processor_identity(), f"linked with {executorch}"]
    digest = hashlib.sha256(repr((abi, executorch_version, machine, sources_digest())).encode())
    return digest.hexdigest()[:_KEY_LETTERS]


def sources_digest(folder: Path | None = None) -> str:
    """A hash of everything that the engine is compiled from.

    Args:
        folder: where its sources lie; None: those of this edgec.
    """
    digest, root = hashlib.sha256(), folder or SOURCES
    sources = (path for path in root.rglob("*") if path.suffix in (".cpp", ".h"))
    for path in sorted((*sources, root / _PROJECT)):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:_KEY_LETTERS]


def _compiler_key(compiler: Path, abi: Abi) -> str:
    line = [str(compiler), *abi.compiler_words, "--version"]
    with TemporaryDirectory() as folder:  # zig leaves an empty a.o where it is asked
        said = subprocess.run(line, capture_output=True, text=True, check=False, cwd=folder).stdout
    return hashlib.sha256(f"{compiler.resolve()}\n{said}".encode()).hexdigest()[:_KEY_LETTERS]


def _compile_all(tools: Toolchain, folder: Path, compiled: Callable[[int, int], None]) -> None:
    project = CMakeProject(SOURCES, folder / "objects", tools.definitions())
    project.configure()
    project.compile(compiled)
    project.install(folder)
    shutil.rmtree(project.folder)
    if tools.abi.travels:
        _copy_libraries(tools, folder)
    flags = (*tools.abi.flags, *tools.abi.further_flags)
    facts = {"compiler": str(tools.compiler), "flags": flags, "executorch": tools.version, "sources": sources_digest()}
    (folder / FACTS).write_text(json.dumps(facts, indent=1))


def _copy_libraries(tools: Toolchain, folder: Path) -> None:
    """Copy ExecuTorch's libraries and the compiler's C library into a build, so that a device needs to have neither."""
    ours = [tools.executorch / "lib" / f"libexecutorch{name}.so" for name in LINKED]
    for path in (*ours, *(_compilers_file(tools.compiler, name) for name in tools.abi.system_libraries)):
        shutil.copy(path.resolve(), folder / path.name)


def _compilers_file(compiler: Path, name: str) -> Path:
    line = [str(compiler), f"-print-file-name={name}"]
    return Path(subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip())
