"""edgec's engine compiles with the headers that ExecuTorch's Swift package exports, and for Apple's processors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgec.apps.embed.engine_sources import engine_sources, image_sources
from edgec.engine.compile.abi import NATIVE, find_compiler
from edgec.engine.compile.build import SOURCES
from tests.engine.compiled import INCLUDES

LIST = Path(__file__).parent / "apple_headers.txt"
EXPORTED = frozenset(line for line in LIST.read_text().splitlines() if not line.startswith("#"))
# What a header of the list includes in ExecuTorch 1.5.1, but not in the version that the list was made of.
LATER = frozenset({"runtime/core/portable_type/c10/torch/headeronly/util/complex_utils.h"})
C10 = "executorch/runtime/core/portable_type/c10"
FLAGS = ("-std=c++17", "-Wall", "-Werror", "-DC10_USING_CUSTOM_GENERATED_MACROS=", "-DEDGEC_EXECUTORCH_VERSION=1.5.1")


def test_the_engine_includes_only_exported_headers() -> None:
    included = set()
    for name in engine_sources(audio=True, images=True):
        included |= set(re.findall(r"#include <executorch/([^>]+)>", (SOURCES / name).read_text()))
    assert len(included) > 10 and included <= EXPORTED


def _headers(folder: Path) -> Path:
    """A folder with no other headers of ExecuTorch than the exported ones, in the installed version."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations
    installed = Path(next(iter(spec.submodule_search_locations))) / "include" / "executorch"
    for name in EXPORTED | LATER:
        # Its Python package lacks some that only other platforms or extension/tensor's makers need.
        if (installed / name).is_file():
            target = folder / "executorch" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(installed / name, target)
    return folder


def _compile(line: list[str], folder: Path) -> str:
    """The compiler's messages about all sources of engine and images; empty where all is well."""
    headers = _headers(folder)
    includes = [*INCLUDES, *(f"-I{path}" for path in (headers, headers / C10))]
    said = ""
    every = sorted({*engine_sources(audio=True, images=True), *image_sources()})
    for name in (name for name in every if name.endswith(".cpp")):
        command = [*line, *FLAGS, *includes, "-c", str(SOURCES / name), "-o", str(folder / "object.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said += done.stderr or ("" if done.returncode == 0 else f"{name}: exit code {done.returncode}")
    return said


@pytest.mark.slow
def test_the_exported_headers_suffice(tmp_path: Path) -> None:
    assert _compile([str(find_compiler(NATIVE)), "-fsyntax-only", *NATIVE.flags], tmp_path) == ""


def _zig() -> list[str] | None:
    """Zig's C++ compiler, which has the headers of Apple's C and C++ libraries: EDGEC_ZIG or the package ziglang."""
    if named := os.environ.get("EDGEC_ZIG"):
        return [named, "c++"]
    return [sys.executable, "-m", "ziglang", "c++"] if find_spec("ziglang") else None


@pytest.mark.slow
@pytest.mark.skipif(_zig() is None, reason="neither EDGEC_ZIG nor ziglang")
@pytest.mark.parametrize("system", ["aarch64-macos", "aarch64-ios.17.0"])
def test_the_engine_compiles_for_apples_processors(system: str, tmp_path: Path) -> None:
    line = _zig()
    assert line is not None
    where = subprocess.run([*line[:-1], "env"], capture_output=True, text=True, check=True).stdout
    library = re.search(r'lib_dir"?\s*[:=]\s*"([^"]+)"', where)
    assert library is not None
    # Zig has the headers of macOS only; those of the C library are the same on iOS.
    own = ["-isystem", f"{library[1]}/libc/include/any-darwin-any"] if "ios" in system else []
    assert _compile([*line, "-target", system, *own, "-O1"], tmp_path) == ""
    magic = (tmp_path / "object.o").read_bytes()[:8]
    assert magic == bytes.fromhex("cffaedfe0c000001")
