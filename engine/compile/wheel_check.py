"""What a wheel's engine asks of the system that it is for, read from its binaries: nothing of it is executed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from edgec.engine.compile.abi import Abi
from edgec.engine.compile.build import sources_digest
from edgec.engine.compile.shipped import BUILT
from edgec.errors import InputError, ToolError

if TYPE_CHECKING:
    import lief

# Of what a binary asks for by version, the most that the platform tags of the wheels promise.
NEWEST: Final[Mapping[str, tuple[int, ...]]] = {"macOS": (14, 0), "GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}
LIBRARY, RUNNER = "libedgec.so", "edgec-runner"
_GNU: Final = "libstdc++.so.6"
# What every machine of a system has: of macOS its one library, of Linux the parts of glibc, and what ExecuTorch needs.
_OF_THE_SYSTEM: Final[Mapping[str, tuple[str, ...]]] = {
    "Darwin": ("libSystem.B.dylib",),
    "Linux": ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", _GNU, "libgcc_s.so"),
}


@dataclass(frozen=True)
class ReadBinary:
    """What a library or program says of itself.

    Attributes:
        needed: file names of the libraries that it is linked with.
        places: where these are looked for.
        exported: symbols that others may use.
        undefined: symbols of others that it cannot do without; those of the system's C library are left out.
        versions: of the system that it needs, by the names of ``NEWEST``.
        processor: CMake's name of the processor.
    """

    needed: tuple[str, ...]
    places: tuple[str, ...]
    exported: frozenset[str]
    undefined: frozenset[str]
    versions: tuple[tuple[str, tuple[int, ...]], ...]
    processor: str


def check_wheel(wheel: Path, abi: Abi, executorch: Path) -> None:
    """Check the engine inside a wheel against ExecuTorch's package for the same system.

    Raises:
        InputError: E887, with everything that its system would not have.
        ToolError: E886, the package lief is not installed.
    """
    with TemporaryDirectory() as scratch:
        inside = f"edgec/engine/{BUILT}/{abi.name}"
        with zipfile.ZipFile(wheel) as archive:
            for name in (LIBRARY, RUNNER):
                archive.extract(f"{inside}/{name}", scratch)
            faults = list(source_faults(archive, inside))
        faults += engine_faults(Path(scratch, inside), abi, executorch)
    if faults:
        raise InputError(
            f"The engine of {wheel.name} would not run on {abi.name}.",
            where=str(wheel),
            why="; ".join(faults),
            fix="compile with the compiler that edgec[wheels] brings, and link ExecuTorch's wheel of the same system",
            code="E887",
        )


def source_faults(archive: zipfile.ZipFile, inside: str) -> Iterator[str]:
    """Whether an engine was compiled of the sources beside it: it is used with these alone.

    Args:
        archive: the wheel.
        inside: the engine's folder in it.
    """
    with TemporaryDirectory() as scratch:
        archive.extractall(scratch, [name for name in archive.namelist() if name.startswith("edgec/engine/")])
        digest = sources_digest(Path(scratch, "edgec", "engine"))
    compiled_of = json.loads(archive.read(f"{inside}/build.json")).get("sources")
    if compiled_of != digest:
        yield f"it was compiled of sources {compiled_of}, and the wheel holds {digest}"


def engine_faults(folder: Path, abi: Abi, executorch: Path) -> Iterator[str]:
    """What is wrong with a compiled engine's library and program, one sentence each."""
    origin = "@loader_path" if abi.system == "Darwin" else "$ORIGIN"
    brought = {path.name: read_binary(path) for path in (executorch / "lib").glob("libexecutorch*")}
    library = read_binary(folder / LIBRARY)
    yield from _faults(LIBRARY, library, abi, f"{origin}/{abi.executorch_place}", brought)
    yield from _faults(RUNNER, read_binary(folder / RUNNER), abi, origin, {**brought, LIBRARY: library})


def _faults(name: str, read: ReadBinary, abi: Abi, place: str, brought: Mapping[str, ReadBinary]) -> Iterator[str]:
    if read.processor != abi.processor:
        yield f"{name} is for {read.processor}, not {abi.processor}"
    for library in read.needed:
        if library not in brought and not library.startswith(_OF_THE_SYSTEM[abi.system]):
            yield f"{name} needs {library}, which neither the system nor ExecuTorch's wheel has"
    there = frozenset[str]().union(*(brought[library].exported for library in read.needed if library in brought))
    if lacking := sorted(read.undefined - there):
        yield f"{name} uses {len(lacking)} symbols that nothing exports, such as {lacking[0]}"
    for what, version in read.versions:
        if version[: len(NEWEST[what])] > NEWEST[what]:
            yield f"{name} needs {what} {_dotted(version)}, more than {_dotted(NEWEST[what])}"
    if _GNU not in read.needed and any(_GNU in each.needed for each in brought.values()):
        yield f"{name} has another C++ library than ExecuTorch, whose string_view is laid out in another order"
    if read.places != (place,):
        yield f"{name} looks for libraries in {', '.join(read.places) or 'no folder'}, not in {place}"


def read_binary(path: Path) -> ReadBinary:
    """Read a library or program of macOS or Linux.

    Raises:
        ToolError: E886, the package lief is not installed.
        InputError: E887, the file is of another kind.
    """
    try:
        import lief
    except ModuleNotFoundError as cause:
        fix = 'pip install "edgec[wheels]"'
        raise ToolError("Binaries cannot be read.", str(path), "lief is not installed", fix, "E886") from cause
    lief.logging.disable()  # what is wrong with a file is said below
    parsed = lief.parse(str(path))
    if isinstance(parsed, lief.MachO.Binary):
        return _read_apple(parsed)
    if isinstance(parsed, lief.ELF.Binary):
        return _read_linux(parsed)
    raise InputError("This is neither a library nor a program.", str(path), "lief cannot read it", "build it", "E887")


def _read_apple(binary: lief.MachO.Binary) -> ReadBinary:
    import lief

    own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
    needed = [each.name for each in binary.libraries if each.command != own]
    bound = [(each.symbol, each.library) for each in binary.bindings]
    version = binary.build_version
    return ReadBinary(
        tuple(Path(name).name for name in needed),
        tuple(each.path for each in binary.rpaths),
        frozenset(str(each.name) for each in binary.exported_symbols),
        frozenset(str(symbol.name) for symbol, library in bound if symbol and library and library.name.startswith("@")),
        (("macOS", tuple(version.minos)),) if version is not None else (),
        "arm64" if binary.header.cpu_type == lief.MachO.Header.CPU_TYPE.ARM64 else "x86_64",
    )


def _read_linux(binary: lief.ELF.Binary) -> ReadBinary:
    import lief

    symbols = [each for each in binary.dynamic_symbols if each.binding != lief.ELF.Symbol.BINDING.LOCAL]
    wanted = [each for each in symbols if not each.shndx and each.binding != lief.ELF.Symbol.BINDING.WEAK]
    versions = [str(part.name) for each in binary.symbols_version_requirement for part in each.get_auxiliary_symbols()]
    run_paths = [each for each in binary.dynamic_entries if isinstance(each, lief.ELF.DynamicEntryRunPath)]
    return ReadBinary(
        tuple(map(str, binary.libraries)),
        tuple(path for each in run_paths for path in each.paths),
        frozenset(str(each.name) for each in symbols if each.shndx),
        frozenset(str(each.name) for each in wanted if not _is_versioned(each)),
        tuple(_version(name) for name in versions if name.partition("_")[0] in NEWEST),
        {lief.ELF.ARCH.AARCH64: "aarch64", lief.ELF.ARCH.X86_64: "x86_64"}.get(binary.header.machine_type, "other"),
    )


def _version(name: str) -> tuple[str, tuple[int, ...]]:
    """`GLIBC_2.28` in two parts."""
    what, _, numbers = name.partition("_")
    return what, tuple(map(int, numbers.split(".")))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _is_versioned(symbol: lief.ELF.Symbol) -> bool:
    """Whether a library of glibc has it: ExecuTorch's symbols have no versions, for which 0 and 1 stand."""
    version = symbol.symbol_version if symbol.has_version else None
    return version is not None and version.value > 1
