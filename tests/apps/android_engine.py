"""The CMake project of an Android app, compiled here for 64-bit Arm or for this machine, and called from a program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgec.bundle.folder import Bundle
from edgec.devices.qemu.emulator import CPU
from edgec.engine.compile.abi import ARM64
from edgec.engine.compile.executorch_wheel import unpack_wheel
from edgec.installation import cache_root

SOURCE = Path(__file__).parent / "engine_calls.cpp"
_SYSROOT = "/usr/aarch64-linux-gnu"
_COMPILERS = (("C", "gcc"), ("CXX", "g++"))


def jni_folders() -> list[Path]:
    """The folders of a JDK's ``jni.h``; empty where there is none."""
    compiler = shutil.which("javac")
    include = Path(compiler).resolve().parents[1] / "include" if compiler else Path("/")
    return [include, include / "linux"] if (include / "jni.h").is_file() else []


def lacking(arm: bool = True) -> str | None:
    """What this machine lacks to compile and run such a project."""
    needed = ("cmake", *(("aarch64-linux-gnu-g++", "qemu-aarch64") if arm else ("c++",)))
    missing = [name for name in needed if shutil.which(name) is None]
    return f"no {missing[0]}" if missing else None if jni_folders() else "no JDK with jni.h"


@dataclass(frozen=True)
class BuiltEngine:
    """A project's library and where the libraries lie that it needs."""

    folder: Path
    name: str
    executorch: Path
    arm: bool

    def program(self, folder: Path, package: str) -> Path:
        """The program of ``engine_calls.cpp``, linked with the library."""
        made = folder / "engine_calls"
        sources = self.folder.parent / "kit/model/src/main/cpp/edgec"
        includes = [f"-I{path}" for path in (sources, sources / "include", *jni_folders())]
        prefix = f"-DEDGEC_JNI_PREFIX=Java_{package.replace('.', '_')}_NativeEngine_"
        paths = (self.folder, self.executorch / "lib")
        links = [f"-Wl,-rpath-link,{paths[1]}", *(f"-Wl,-rpath,{path}" for path in paths)]
        compiler = "aarch64-linux-gnu-g++" if self.arm else "c++"
        line: list[str | Path] = [compiler, "-std=c++17", "-O1", *includes, prefix, SOURCE, "-o", made]
        _call([*line, f"-L{self.folder}", f"-l{self.name}", *links])
        return made

    def run(self, line: Sequence[str | Path], cpu: str = CPU) -> str:
        """Run a program, emulated where it is not for this machine; returns what it printed."""
        return _call([*(("qemu-aarch64", "-L", _SYSROOT, "-cpu", cpu) if self.arm else ()), *line])


def build(kit: Path, name: str, arm: bool = True) -> BuiltEngine:
    """Configure and compile ``kit``'s project beside it."""
    folder = kit.parent / "build"
    installed = find_spec("executorch")
    assert installed is not None and installed.submodule_search_locations
    here = Path(next(iter(installed.submodule_search_locations)))
    package = unpack_wheel(ARM64, version("executorch"), cache_root() / "runner") if arm else here
    cross = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    cross += [f"-DCMAKE_{language}_COMPILER=aarch64-linux-gnu-{name}" for language, name in _COMPILERS]
    jni = f"-DEDGEC_JNI_INCLUDE={';'.join(map(str, jni_folders()))}"
    line: list[str | Path] = ["cmake", "-S", kit / "model/src/main/cpp", "-B", folder, "-DCMAKE_BUILD_TYPE=Release"]
    _call([*line, *(cross if arm else []), f"-DEXECUTORCH_ROOT={package}", jni])
    _call(["cmake", "--build", folder, "--parallel", "2"])
    return BuiltEngine(folder, name, package, arm)


def replayed(
    engine: BuiltEngine, program: Path, bundle: Bundle, tokens: Sequence[int], prompt: int, cpu: str = CPU
) -> tuple[NDArray[np.float32], NDArray[np.float32], dict[str, str]]:
    """The logits through the C interface and through JNI, and what the program said about states and failures."""
    manifest, logits = bundle.manifest, program.with_name("logits.f32")
    assert manifest.limits is not None
    words = [str(bundle.artifact_path), manifest.methods[0].name, str(manifest.limits.prefill_chunk), str(logits)]
    said = engine.run([program, *words, str(prompt), *map(str, tokens)], cpu)
    rows = np.fromfile(logits, np.float32).reshape(2, len(tokens) - prompt + 1, -1)
    return rows[0], rows[1], dict(row.split("=", 1) for row in said.splitlines())


def _call(line: Sequence[str | Path]) -> str:
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout
