"""The ABIs that the engine is compiled for, and their compilers: this machine, Android phones, and edgec's wheels."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
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
        system: CMake's name of the system where it is compiled for another machine than this.
        processor: the processor's name where it is not this machine's.
        wheel_platform: platform tag of the ExecuTorch wheel to link with; None: the installed one.
        system_libraries: files of the C and C++ libraries that a device lacks and that are copied with the runner.
        package: the Python package that brings the compiler, where one does.
        target: what zig compiles for.
        executorch_place: where ExecuTorch's libraries lie at run time, from the folder of the engine; empty: where they
            lay when it was compiled.
        needs: instructions that the processor must have, by Linux's names.
        install: how to install a compiler.
    """

    name: str
    compilers: tuple[str, ...]
    variable: str
    flags: tuple[str, ...] = ()
    further_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    system: str = ""
    processor: str = ""
    wheel_platform: str | None = None
    system_libraries: tuple[str, ...] = ()
    package: str = ""
    target: str = ""
    executorch_place: str = ""
    needs: tuple[str, ...] = ()
    install: str = ""

    @property
    def travels(self) -> bool:
        """Whether its build runs wherever the folder is copied, without anything installed there."""
        return bool(self.system_libraries)

    @property
    def compiler_words(self) -> tuple[str, ...]:
        """What stands between the compiler's path and its flags."""
        return ("c++", "-target", self.target) if self.target else ()

    @property
    def definitions(self) -> dict[str, str]:
        """The variables of CMake that name another machine than this one."""
        if not self.system:
            return {}
        named = {"CMAKE_SYSTEM_NAME": self.system, "CMAKE_SYSTEM_PROCESSOR": self.processor}
        # CMake asks for Apple's SDK and this tool of it, and uses neither here: zig brings headers, the linker paths.
        apple = {"CMAKE_OSX_SYSROOT": "", "CMAKE_INSTALL_NAME_TOOL": "not-needed"}
        return named | (apple if self.system == "Darwin" else {})


def native_abi(system: str, machine: str) -> Abi:
    """The ABI of this machine.

    Args:
        system: as `sys.platform`.
        machine: as `platform.machine()`. GCC and Clang call a processor's own instructions -mcpu on Arm.
    """
    install = "run: xcode-select --install" if system == "darwin" else "install one (Debian: apt install g++)"
    return Abi(
        "native",
        ("c++", "g++", "clang++"),
        "CXX",
        ("-mcpu=native" if machine in ("arm64", "aarch64") else "-march=native",),
        install=f"{install}, or export with --kernels standard to run without the engine",
    )


NATIVE: Final = native_abi(sys.platform, platform.machine())
ARM64: Final = Abi(
    "arm64",
    ("aarch64-linux-gnu-g++",),
    "CXX_ARM64",
    # Every 64-bit Android phone; XNNPACK chooses dotprod and i8mm kernels itself while it runs.
    ("-march=armv8-a",),
    # Phones with pages of 16 KiB load no segment that is aligned to less.
    link_flags=("-Wl,-z,max-page-size=65536",),
    system="Linux",
    processor="aarch64",
    wheel_platform="manylinux_2_28_aarch64",
    executorch_place=".",
    system_libraries=(
        *(LOADER, "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"),
    ),
    install="install one (Debian: apt install g++-aarch64-linux-gnu)",
)


_PLACE: Final = "../../../../executorch/lib"

# Every Mac with Apple's chip has M1's instructions; matrices of few bits use those of later ones where they are.
# zig brings the headers of macOS and a C++ library of the kind that ExecuTorch's wheel for it uses, and links it in.
MACOS_ARM64: Final = Abi(
    "macos-arm64",
    ("zig",),
    "EDGEC_ZIG",
    ("-mcpu=apple_m1",),
    system="Darwin",
    processor="arm64",
    wheel_platform="macosx_14_0_arm64",
    package="ziglang",
    target="aarch64-macos.14.0",
    executorch_place=_PLACE,
    install='pip install "edgec[wheels]"',
)
# On Linux GCC's C++ library, as in ExecuTorch's wheel: a string_view of zig's has its parts in the other order.
LINUX_ARM64: Final = replace(
    ARM64, name="linux-arm64", link_flags=(*ARM64.link_flags, "-s"), system_libraries=(), executorch_place=_PLACE
)
LINUX_X86_64_V3: Final = Abi(
    "linux-x86-64-v3",
    ("x86_64-linux-gnu-g++", "g++"),
    "CXX_X86_64",
    ("-march=x86-64-v3",),
    link_flags=("-s",),
    system="Linux",
    processor="x86_64",
    wheel_platform="manylinux_2_28_x86_64",
    executorch_place=_PLACE,
    needs=("avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"),
    install="install one (Debian: apt install g++-x86-64-linux-gnu)",
)
PORTABLE: Final = (MACOS_ARM64, LINUX_ARM64, LINUX_X86_64_V3)
"""What edgec's wheels bring; where a processor has several, the first is the best."""
ABIS: Final[Mapping[str, Abi]] = MappingProxyType({abi.name: abi for abi in (NATIVE, ARM64, *PORTABLE)})


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
        why="ExecuTorch has no wheel to link with for other systems, and none for 32-bit Arm",
        fix=f"use --abi {', '.join(ABIS)}",
        code="E570",
    )


def find_compiler(abi: Abi = NATIVE) -> Path:
    """The path of the C++ compiler: the one that the ABI's variable names, else the first of its compilers on the path.

    Raises:
        ToolError: E311, there is none.
    """
    given = os.environ.get(abi.variable)
    names = (given,) if given else abi.compilers
    compiler = next(filter(None, map(shutil.which, (*_packaged(abi.package, names), *names))), None)
    if compiler is not None:
        return Path(compiler)
    raise ToolError(
        "No C++ compiler is installed.",
        where=abi.variable if given else "PATH",
        why=f"looked for {', '.join(names)}; edgec's engine is compiled on this machine",
        fix=abi.install,
        code="E311",
    )


def _packaged(package: str, names: Sequence[str]) -> list[str]:
    """Where a Python package would have programs of these names."""
    spec = find_spec(package) if package else None
    return [str(Path(folder, name)) for folder in (spec and spec.submodule_search_locations) or () for name in names]
