"""The ABIs that the engine is compiled for (this machine, or the 64-bit Arm of Android phones), and their compilers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from edgec.errors import InputError, ToolError

LOADER: Final = "ld-linux-aarch64.so.1"


@dataclass(frozen=True)
class Abi:
    """One combination of processor and C library.

    Attributes:
        name: as in ``--abi``.
        compilers: names of compilers to look for on the path.
        variable: environment variable that names another compiler.
        flags: compiler flags for the processor.
        further_flags: compiler flags of every file, such as a sanitizer's.
        link_flags: flags for the linker.
        processor: the processor's name where it is not this machine's.
        wheel_platform: platform tag of the ExecuTorch wheel to link with; None: the installed one.
        system_libraries: files of the C and C++ libraries that a device lacks and that are copied with the runner.
        install: how to install a compiler.
    """

    name: str
    compilers: tuple[str, ...]
    variable: str
    flags: tuple[str, ...] = ()
    further_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    processor: str = ""
    wheel_platform: str | None = None
    system_libraries: tuple[str, ...] = ()
    install: str = ""

    @property
    def travels(self) -> bool:
        """Whether its build runs wherever the folder is copied, without anything installed there."""
        return bool(self.system_libraries)


NATIVE: Final = Abi(
    "native",
    ("c++", "g++", "clang++"),
    "CXX",
    ("-march=native",),
    install="install one (Debian: apt install g++), or export with --kernels standard to run without the engine",
)
ARM64: Final = Abi(
    "arm64",
    ("aarch64-linux-gnu-g++",),
    "CXX_ARM64",
    # Every 64-bit Android phone; XNNPACK chooses dotprod and i8mm kernels itself while it runs.
    ("-march=armv8-a",),
    # Phones with pages of 16 KiB load no segment that is aligned to less.
    link_flags=("-Wl,-z,max-page-size=65536",),
    processor="aarch64",
    wheel_platform="manylinux_2_28_aarch64",
    system_libraries=(
        *(LOADER, "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"),
    ),
    install="install one (Debian: apt install g++-aarch64-linux-gnu)",
)
ABIS: Final[Mapping[str, Abi]] = MappingProxyType({abi.name: abi for abi in (NATIVE, ARM64)})


def abi_named(name: str) -> Abi:
    """Look up an ABI by its name.

    Raises:
        InputError: E570, it does not exist.
    """
    if name in ABIS:
        return ABIS[name]
    raise InputError(
        f"The runner is not built for {name!r}.",
        where="--abi",
        why="32-bit Arm and x86 phones have no ExecuTorch wheel to link with",
        fix=f"use --abi {' or '.join(ABIS)}",
        code="E570",
    )


def find_compiler(abi: Abi = NATIVE) -> Path:
    """The path of the C++ compiler: the one that the ABI's variable names, else the first of its compilers on the path.

    Raises:
        ToolError: E311, there is none.
    """
    given = os.environ.get(abi.variable)
    names = (given,) if given else abi.compilers
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is not None:
        return Path(compiler)
    raise ToolError(
        "No C++ compiler is installed.",
        where=abi.variable if given else "PATH",
        why=f"looked for {', '.join(names)}; edgec's engine is compiled on this machine",
        fix=abi.install,
        code="E311",
    )
