"""Every header of the engine is understood alone, whatever was included before it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgec.engine.compile.abi import ARM64, NATIVE, Abi, find_compiler
from edgec.engine.compile.build import SOURCES, find_toolchain
from edgec.errors import ToolError
from tests.engine.compiled import INCLUDES

# Headers of one family of processors, by the beginning of their names.
FAMILIES = {"neon": "aarch64", "x86": "x86_64"}


def _headers(machine: str) -> Iterator[Path]:
    """The headers that a compiler for ``machine`` understands."""
    for path in sorted(SOURCES.rglob("*.h")):
        family = next((name for name in FAMILIES if path.name.startswith(name)), None)
        if family is None or FAMILIES[family] == machine:
            yield path


def _refused(header: Path, abi: Abi) -> str:
    """What the compiler says of a file that includes this header alone, twice; empty where all is well."""
    root = find_toolchain().executorch / "include"
    portable = root / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    includes = [*INCLUDES, f"-isystem{root}", f"-isystem{portable}", "-DC10_USING_CUSTOM_GENERATED_MACROS"]
    line = [str(find_compiler(abi)), "-std=c++17", "-fsyntax-only", *includes, "-x", "c++", "-"]
    text = 2 * f'#include "{header}"\n'
    done = subprocess.run([str(word) for word in line], input=text, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr[:500] or f"exit status {done.returncode}"


@pytest.mark.slow
@pytest.mark.long
def test_each_header_compiles_alone() -> None:
    refused = {path.name: said for path in _headers(platform.machine()) if (said := _refused(path, NATIVE))}
    assert refused == {}


@pytest.mark.long
def test_the_headers_of_phones_compile_alone() -> None:
    try:
        find_compiler(ARM64)
    except ToolError as absent:
        pytest.skip(str(absent))
    headers = [path for path in _headers("aarch64") if path.parent.name == "linear"]
    assert {path.name: said for path in headers if (said := _refused(path, ARM64))} == {}


def test_a_header_that_lacks_an_include_is_named(tmp_path: Path) -> None:
    header = tmp_path / "lacking.h"
    header.write_text("#pragma once\ninline std::string text;\n")
    assert "std" in _refused(header, NATIVE)


@pytest.mark.parametrize("header", sorted((SOURCES / "include" / "edgec").glob("*.h")), ids=lambda path: path.name)
def test_a_public_header_is_c_and_needs_no_search_path(header: Path) -> None:
    """Apps' modules, Swift's among them, name it by its place: nothing tells them where the others are."""
    line = [str(find_compiler(NATIVE)), "-fsyntax-only", "-x", "c", "-std=c99", "-Werror", "-"]
    given = f'#include "{header}"\n'
    assert subprocess.run(line, input=given, capture_output=True, text=True, check=False).stderr == ""
