"""The engine, the runner and small C++ programs around them, compiled with a sanitizer."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from edgec.engine.compile.abi import NATIVE, Abi, find_compiler
from edgec.engine.compile.build import INCLUDES, SOURCES, RunnerBuild, build_runner

FUZZ = Path(__file__).parent / "fuzz"
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
        flags: of the sanitizer.
        compiler: that made it.
    """

    build: RunnerBuild
    flags: tuple[str, ...]
    compiler: Path

    def program(self, name: str, folder: Path, *sources: str) -> Path:
        """``fuzz/NAME.cpp``, with more of the runner's own sources, linked with the engine."""
        made = folder / name
        files = [FUZZ / f"{name}.cpp", *(SOURCES / source for source in sources)]
        flags = ["-std=c++17", *_PLAIN, *self.flags, *INCLUDES, "-pthread", f"-L{self.build.folder}"]
        # ExecuTorch's libraries, which the engine is linked with, are found when the program starts.
        link = [f"-Wl,-rpath,{self.build.folder}", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-ledgec"]
        subprocess.run([self.compiler, *flags, *files, "-o", made, *link], check=True)
        return made

    def run(self, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program without address randomisation, which GCC's thread sanitizer does not stand."""
        line = ["setarch", "-R", *map(str, words)]
        return subprocess.run(
            line, capture_output=True, text=True, errors="replace", check=False, env={**_ENVIRONMENT, **environment}
        )


def sanitized(flags: tuple[str, ...]) -> Sanitized:
    """The engine with these flags; compiled once and kept like any build."""
    abi = replace(NATIVE, name=flags[0], flags=(*NATIVE.flags, *_PLAIN, *flags), link_flags=flags)
    return Sanitized(build_runner(abi=abi), flags, find_compiler(abi))


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
