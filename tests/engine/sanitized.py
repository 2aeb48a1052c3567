"""The engine, the runner and small C++ programs around them, compiled with a sanitizer."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.engine.compile.abi import NATIVE, Abi, find_compiler
from edgec.engine.compile.build import RunnerBuild, build_runner
from tests.engine.compiled import compiled

_PLAIN = ("-O1", "-g", "-fno-omit-frame-pointer")
# ExecuTorch's classes carry no run-time types for the sanitizer to look at.
MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all")
THREADS = ("-fsanitize=thread",)
_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=99:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
    # ExecuTorch's libraries are not compiled for it: what happens inside them is not judged.
    "TSAN_OPTIONS": "exitcode=66:ignore_noninstrumented_modules=1",
}


@dataclass(frozen=True)
class Sanitized:
    """A build with a sanitizer.

    Attributes:
        build: the engine and the runner.
        abi: with the flags of the sanitizer.
    """

    build: RunnerBuild
    abi: Abi

    def program(self, name: str) -> Path:
        """``fuzz/NAME.cpp``, linked with the engine."""
        return compiled(name, self.abi, self.build)

    def run(self, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program without address randomisation, which GCC's thread sanitizer does not stand."""
        line = ["setarch", "-R", *map(str, words)]
        return subprocess.run(
            line, capture_output=True, text=True, errors="replace", check=False, env={**_ENVIRONMENT, **environment}
        )


def sanitized(flags: tuple[str, ...]) -> Sanitized:
    """The engine with these flags; compiled once and kept like any build."""
    abi = sanitizing(flags)
    return Sanitized(build_runner(abi=abi), abi)


def sanitizing(flags: tuple[str, ...]) -> Abi:
    """This machine, with the flags of a sanitizer."""
    return replace(NATIVE, name=flags[0], further_flags=(*_PLAIN, *flags), link_flags=flags)


def why_not(flags: tuple[str, ...]) -> str:
    """Why this machine's compiler cannot build with a sanitizer; empty where it can."""
    with TemporaryDirectory() as folder:
        source, made = Path(folder) / "one.cpp", Path(folder) / "one"
        source.write_text("int main() { return 0; }\n")
        compiled = subprocess.run(
            [find_compiler(Abi("", NATIVE.compilers, NATIVE.variable, ())), *flags, source, "-o", made],
            capture_output=True,
            text=True,
            check=False,
        )
        ran = compiled.returncode == 0 and subprocess.run(["setarch", "-R", made], check=False).returncode == 0
    return "" if ran else f"the compiler lacks {flags[0]}"
