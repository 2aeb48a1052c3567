"""``edgec doctor``: what this installation has, what it lacks, and how to fix that."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version

import psutil
from packaging.requirements import Requirement
from rich.text import Text

from edgec.bundle.atomic import existing_parent, free_bytes
from edgec.engine.compile.abi import find_compiler
from edgec.engine.compile.build import engine_fault, find_build
from edgec.engine.compile.cmake import find_tool
from edgec.errors import EdgecError, InputError, ToolError
from edgec.installation import CACHE_FIX, cache_root, install_command
from edgec.platform_parts import here, lacking_parts
from edgec.processor import is_translated
from edgec.runtime_py.engines.executorch_binding import runtime
from edgec.terminal import make_console

KERNELS = (
    "llama::custom_sdpa.out",
    "llama::update_cache.out",
    "quantized_decomposed::embedding_4bit.out",
    "aten::index_put.out",
)
BACKENDS = ("XnnpackBackend",)
LOW_MEMORY, LOW_DISK = 4e9, 5e9
# The extra that users need not care about; packages for another platform count as part of it.
DEVELOPMENT = "dev"
# Name, what it is for, how to get it.
TOOLS = (
    ("adb", "Android phones", "install platform-tools (Debian: apt install adb)"),
    ("aarch64-linux-gnu-g++", "the arm64 runner", "Debian: apt install g++-aarch64-linux-gnu"),
    ("qemu-aarch64", "running arm64 programs here", "Debian: apt install qemu-user"),
    ("xcrun", "iPhones and the simulator", "install Xcode on a Mac"),
)


COLOURS = {"ok": "green", "missing": "red", "absent": "yellow", "low": "yellow"}


@dataclass(frozen=True)
class DoctorCheck:
    """A finding of the doctor. ``status``: ok, missing (required), absent (optional) or low; ``fix``: empty when ok."""

    name: str
    status: str
    found: str
    fix: str = ""

    @property
    def fatal(self) -> bool:
        """Whether edgec cannot work without it."""
        return self.status == "missing"

    def to_json(self) -> dict[str, str]:
        """The finding as plain data."""
        return asdict(self)


def diagnose() -> tuple[DoctorCheck, ...]:
    """Run all checks; nothing is changed or downloaded."""
    parts: tuple[Callable[[], Iterator[DoctorCheck]], ...] = (
        *(_python, _packages, _elsewhere, _kernels, _engine, _resources, _tools),
    )
    return tuple(check for part in parts for check in part())


def _python() -> Iterator[DoctorCheck]:
    running = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield DoctorCheck("python", "ok" if fits else "missing", running, "" if fits else "use Python 3.11, 3.12 or 3.13")
    if is_translated():
        fix = "install a Python for arm64, as that of python.org or Homebrew in /opt/homebrew"
        yield DoctorCheck("processor", "missing", "this Python is for x86-64, and Rosetta translates it", fix)


def _elsewhere() -> Iterator[DoctorCheck]:
    """Name what other systems have and this one cannot."""
    for part in lacking_parts(here()):
        yield DoctorCheck(part.package, "absent", f"{part.lacks(here())}: no {part.purpose}", part.instead)


def _packages() -> Iterator[DoctorCheck]:
    """Check every package that edgec's metadata names for this platform, once, under the first extra that has it."""
    offered = metadata("edgec").get_all("Provides-Extra") or []
    wanted: dict[tuple[str, str], tuple[Requirement, str]] = {}
    for requirement in map(Requirement, requires("edgec") or ()):
        marker = requirement.marker
        names = (name for name in ("", *offered) if marker is None or marker.evaluate({"extra": name}))
        extra = next(names, DEVELOPMENT)
        wanted.setdefault((requirement.name, str(requirement.specifier)), (requirement, extra))
    yield from (package_check(requirement, extra) for requirement, extra in wanted.values() if extra != DEVELOPMENT)


def package_check(requirement: Requirement, extra: str = "") -> DoctorCheck:
    """Check the installed version of one package against its pin; ``extra`` is empty for a required one."""
    name, wanted = requirement.name, str(requirement.specifier) or "any version"
    lacking = "absent" if extra else "missing"
    install = install_command(extra) if extra else f'pip install "{requirement.name}{requirement.specifier}"'
    try:
        installed = version(name)
    except PackageNotFoundError:
        return DoctorCheck(name, lacking, f"not installed (wanted: {wanted})", install)
    if requirement.specifier.contains(installed, prereleases=True):
        return DoctorCheck(name, "ok", installed)
    return DoctorCheck(name, lacking, f"{installed} (wanted: {wanted})", install)


def _kernels() -> Iterator[DoctorCheck]:
    try:
        module = runtime()
    except ToolError as error:
        yield DoctorCheck("ExecuTorch runtime", "missing", error.why, error.fix)
        return
    operators, backends = set(module._get_operator_names()), set(module._get_registered_backend_names())
    yield from (_registered(f"kernel {name}", name in operators) for name in KERNELS)
    yield from (_registered(f"backend {name}", name in backends) for name in BACKENDS)


def _engine() -> Iterator[DoctorCheck]:
    """Check edgec's own engine: it is compiled on first use, so either it or a compiler must be present."""
    if why := engine_fault():
        fix = "install the wheel of this system; until then the engine is compiled on first use"
        yield DoctorCheck("engine in edgec's wheel", "absent", f"not used: {why}", fix)
    try:
        if (build := find_build()) is not None:
            yield DoctorCheck("edgec engine", "ok", f"compiled: {build.folder}")
            return
        compiler, *_ = find_compiler(), find_tool("cmake"), find_tool("ninja")
        yield DoctorCheck("edgec engine", "ok", f"will be compiled on first use by {compiler}")
    except EdgecError as error:
        yield DoctorCheck("edgec engine", "absent", f"{error.what} {error.why}", error.fix)


def _registered(name: str, present: bool) -> DoctorCheck:
    if present:
        return DoctorCheck(name, "ok", "registered")
    return DoctorCheck(name, "missing", "not registered", "pip install --force-reinstall executorch==1.5.1")


def _resources() -> Iterator[DoctorCheck]:
    memory = psutil.virtual_memory()
    yield _amount("memory available", memory.available, LOW_MEMORY, "close programs; large exports need more")
    try:
        folder = cache_root().absolute()
    except InputError as error:
        yield DoctorCheck("stage cache", "missing", f"{error.what} {error.why}", error.fix)
        return
    yield _amount(f"disk free for {folder}", free_bytes(folder), LOW_DISK, "free some space, or set EDGEC_CACHE_DIR")
    nearest = folder if os.path.lexists(folder) else existing_parent(folder)
    usable = nearest.is_dir() and os.access(nearest, os.W_OK)
    yield DoctorCheck("stage cache", "ok" if usable else "missing", str(folder), "" if usable else CACHE_FIX)


def _amount(name: str, available: int, low: float, fix: str) -> DoctorCheck:
    enough = available >= low
    return DoctorCheck(name, "ok" if enough else "low", f"{available / 1e9:.1f} GB (measured)", "" if enough else fix)


def _tools() -> Iterator[DoctorCheck]:
    for name, purpose, fix in TOOLS:
        path = shutil.which(name)
        yield DoctorCheck(
            name, "ok" if path else "absent", path or f"not found; needed for {purpose}", "" if path else fix
        )


def examine(as_json: bool) -> int:
    """Print the findings to stdout; the exit status is 3 when something required is missing, else 0."""
    checks = diagnose()
    missing = [check.name for check in checks if check.fatal]
    if as_json:
        print(json.dumps({"ok": not missing, "missing": missing, "checks": [check.to_json() for check in checks]}))
    else:
        _print(checks, missing)
    return 3 if missing else 0


def _print(checks: Sequence[DoctorCheck], missing: Sequence[str]) -> None:
    """Print a line for each finding, what is not in order last: paths and package names fit no narrow table."""
    console = make_console()
    for check in sorted(checks, key=lambda check: check.status != "ok"):
        status = Text(f"{check.status:8}", COLOURS[check.status])
        console.print(Text.assemble(status, f"{check.name}: {check.found}"), soft_wrap=True)
        if check.fix:
            console.print(Text(f"{'':8}fix: {check.fix}"), soft_wrap=True)
    console.print(f"missing: {', '.join(missing)}" if missing else "Everything that is required is present.")
