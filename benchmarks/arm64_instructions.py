"""Instructions of the linear kernels of arm64, counted in an emulator: python -m benchmarks.arm64_instructions.

qemu executes a small program (arm64_instructions.cpp) with the kernels of ``engine/kernels/linear``, and a
plugin of qemu (arm64_instructions.c) counts the instructions of each multiplication. An emulator's times say nothing
about a phone, and a count is not a time either: none is claimed. A count shows whether a change to a kernel saves work,
and how near it comes to its design. The compiler is aarch64-linux-gnu-g++, or the one that CXX_ARM64 names.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.devices.qemu.emulator import find_emulator
from edgec.engine.compile.abi import ARM64, find_compiler
from edgec.engine.compile.build import find_toolchain
from edgec.engine.compile.cmake import CMakeProject
from edgec.errors import ToolError

PROGRAM, PLUGIN = (Path(__file__).with_suffix(suffix) for suffix in (".cpp", ".c"))
BARE = replace(ARM64, wheel_platform=None)
"""The linear kernels alone call nothing of ExecuTorch, so its headers for this machine do."""
ISAS = ("i8mm", "dotprod")
TOKENS = (1, 2, 4, 8, 16, 48)
ROWS, WIDTH = 64, 1024
"""Counted as the difference between twice as many rows and these."""
CLAIM = "Counted under qemu; no time is claimed."
_INTERVALS = 5
"""Counts of a case: what came before, quantisation, a first multiplication, one like it, one of half the rows."""


@dataclass(frozen=True)
class Scheme:
    """How a matrix is stored.

    Attributes:
        bits, step, offset: a value is ``step * code - offset``.
        group: values that share a scale; 0: the whole row.
    """

    bits: int
    group: int
    step: int
    offset: int

    @property
    def name(self) -> str:
        """As in the table."""
        return f"{self.bits} bits, " + (f"groups of {self.group}" if self.group else "per row")


SCHEMES = (
    Scheme(4, 32, 1, 8),
    Scheme(4, 128, 1, 8),
    Scheme(2, 64, 2, 3),
    Scheme(2, 0, 2, 3),
    Scheme(3, 32, 1, 4),
    Scheme(8, 0, 1, 128),
)


@dataclass(frozen=True)
class Count:
    """The instructions of one multiplication of ``tokens`` by a matrix of 64 rows, 1,024 wide.

    Attributes:
        kernel: the kernel's name.
        scheme: how the matrix is stored.
        tokens: tokens in the call.
        instructions: executed by the multiplication.
        quantisation: executed to quantise the tokens.
    """

    kernel: str
    scheme: str
    tokens: int
    instructions: int
    quantisation: int

    @property
    def products(self) -> float:
        """Multiply-adds per instruction."""
        return ROWS * WIDTH * self.tokens / self.instructions


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and print; 3 where a tool is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    try:
        counts = count(SCHEMES, TOKENS)
    except ToolError as error:
        print(f"Skipped: {error}", file=sys.stderr)
        return 3
    if options.json:
        print(json.dumps({"claim": CLAIM, "counts": [asdict(row) for row in counts]}, indent=1))
    else:
        print("\n".join(table(counts)))
    return 0


def count(schemes: Sequence[Scheme], tokens: Sequence[int]) -> list[Count]:
    """Count each kernel's instructions for each scheme and number of tokens.

    Raises:
        ToolError: qemu, its plugins or a compiler is missing.
    """
    cases = list(product(ISAS, schemes, tokens))
    lines = (f"{isa} {s.bits} {s.step} {s.offset} {s.group} {2 * ROWS} {WIDTH} {n}\n" for isa, s, n in cases)
    with TemporaryDirectory() as folder:
        counted = _run(_compiled(Path(folder)), "".join(lines))
    counts = (counted[at : at + _INTERVALS] for at in range(0, len(counted), _INTERVALS))
    return [
        Count(isa, scheme.name, n, whole - half, quantisation)
        for (isa, scheme, n), (_, quantisation, _, whole, half) in zip(cases, counts, strict=True)
    ]


def table(counts: Sequence[Count]) -> list[str]:
    """A table for each kernel, in Markdown."""
    lines = [f"{CLAIM} Multiply-adds per instruction, {ROWS} rows, {WIDTH} wide; {find_compiler(ARM64).name}."]
    for isa in dict.fromkeys(row.kernel for row in counts):
        own = [row for row in counts if row.kernel == isa]
        tokens = list(dict.fromkeys(row.tokens for row in own))
        lines += ["", f"| {isa} | " + " | ".join(f"M={n}" for n in tokens) + " |", "|---" * (len(tokens) + 1) + "|"]
        for scheme in dict.fromkeys(row.scheme for row in own):
            figures = (f"{row.products:.2f}" for row in own if row.scheme == scheme)
            lines.append(f"| {scheme} | " + " | ".join(figures) + " |")
        lines.append(f"\nQuantising a token: {own[-1].quantisation / own[-1].tokens / WIDTH:.2f} instructions a value.")
    return lines


@dataclass(frozen=True)
class _Programs:
    program: Path
    plugin: Path


def _compiled(folder: Path) -> _Programs:
    """Compile the program for arm64 and the plugin for this machine."""
    host = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if host is None:
        raise _missing("No C compiler is installed.", "PATH", "looked for cc, gcc and clang", "Debian: apt install gcc")
    project = CMakeProject(PROGRAM.parent, folder / "build", find_toolchain(BARE).definitions())
    project.configure()
    project.compile(lambda done, files: None, PROGRAM.stem)
    built = _Programs(project.folder / PROGRAM.stem, folder / "plugin.so")
    subprocess.run([host, "-O2", "-shared", "-fPIC", "-fvisibility=hidden", PLUGIN, "-o", built.plugin], check=True)
    return built


def _run(built: _Programs, cases: str) -> list[int]:
    """The counts that the plugin prints."""
    line = [str(find_emulator()), "-cpu", "max", "-plugin", str(built.plugin), "-d", "plugin", str(built.program)]
    done = subprocess.run(line, check=False, input=cases, capture_output=True, text=True)
    words = [row.split() for row in done.stderr.splitlines()]
    counted = [int(row[1]) for row in words if len(row) == 2 and row[0] == "instructions"]
    if done.returncode != 0 or not counted:
        why = (done.stderr.strip().splitlines() or [f"qemu ended with {done.returncode}"])[-1]
        fix = "use a qemu that is built with plugins (API 1), as Debian's qemu-user is"
        raise _missing("qemu's plugin did not count instructions.", str(find_emulator()), why, fix)
    return counted


def _missing(what: str, where: str, why: str, fix: str) -> ToolError:
    return ToolError(what, where=where, why=why, fix=fix, code="E572")


if __name__ == "__main__":
    sys.exit(main())
