"""llama.cpp's own server, compiled of the sources that llama-cpp-python ships, for this processor."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.harness.processes import run
from benchmarks.peers.environment import REQUIREMENTS, Environment

_SOURCES = REQUIREMENTS[0]
_TOOLS = Environment("llama_server", ("cmake==4.4.5",))
_CHOICES = (
    *("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"),
    *("-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"),
)


def llama_server(build: Path) -> Path:
    """The server's program, which is compiled on first use.

    Raises:
        ProcessFailed: it cannot be downloaded or compiled.
    """
    folder = _TOOLS.python(build).parents[1]
    program = folder / f"{_SOURCES.replace('==', '-')}-server" / "bin" / "llama-server"
    if not program.is_file():
        _compile(folder, program.parents[1])
    return program


def _compile(folder: Path, out: Path) -> None:
    python, cmake = folder / "bin" / "python", folder / "bin" / "cmake"
    run(
        [
            python,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary=llama-cpp-python",
            "-d",
            folder,
            _SOURCES,
        ]
    )
    (archive,) = folder.glob("llama_cpp_python-*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    archive.unlink()
    (sources,) = folder.glob("llama_cpp_python-*/vendor/llama.cpp")
    run([cmake, "-S", sources, "-B", out, *_CHOICES])
    run([cmake, "--build", out, "--target", "llama-server", "-j", str(os.cpu_count() or 1)])
