"""edgec's own wheels: what is inside, what their engines may ask of a system, and when one is used."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgec.engine.compile import build as runner_build
from edgec.engine.compile import shipped
from edgec.engine.compile.abi import (
    ABIS,
    ARM64,
    LINUX_X86_64_V3,
    MACOS_ARM64,
    NATIVE,
    PORTABLE,
    find_compiler,
    native_abi,
)
from edgec.engine.compile.build import Toolchain, build_runner, engine_fault, find_build
from edgec.engine.compile.executorch_wheel import unpack_wheel
from edgec.engine.compile.shipped import fitting_abis, shipped_folder, why_unused
from edgec.engine.compile.wheel_check import LIBRARY, ReadBinary, engine_faults, read_binary, source_faults
from edgec.engine.compile.wheels import KINDS, kinds_named, pack_engines
from edgec.errors import InputError, ToolError

NAMES = ("edgec/engine/__init__.py", "edgec-0.1.0.dist-info/METADATA", "edgec-0.1.0.dist-info/WHEEL")
AVX2 = frozenset(("avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "sse4_2"))
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("system", "machine", "flag", "install"),
    [
        ("linux", "x86_64", "-march=native", "apt install g++"),
        ("linux", "aarch64", "-mcpu=native", "apt install g++"),
        ("darwin", "arm64", "-mcpu=native", "xcode-select --install"),
    ],
)
def test_this_machine_is_compiled_for_in_its_compilers_words(
    system: str, machine: str, flag: str, install: str
) -> None:
    abi = native_abi(system, machine)
    assert abi.flags == (flag,) and install in abi.install and not abi.definitions and not abi.compiler_words


def test_another_system_is_named_to_cmake_and_to_zig() -> None:
    tools = Toolchain(MACOS_ARM64, Path("/zig"), Path("/et"), "1.5.1")
    given = tools.definitions()
    assert given["CMAKE_CXX_COMPILER"] == "/zig;c++;-target;aarch64-macos.14.0"
    assert (given["CMAKE_SYSTEM_NAME"], given["CMAKE_SYSTEM_PROCESSOR"]) == ("Darwin", "arm64")
    assert given["EDGEC_EXECUTORCH_PLACE"] == "../../../../executorch/lib"
    assert Toolchain(ARM64, Path("/gcc"), Path("/et"), "1.5.1").definitions()["EDGEC_EXECUTORCH_PLACE"] == "."


def test_a_key_is_the_same_in_every_process() -> None:
    """Instructions are kept in order: a set's would depend on the process."""
    code = "from edgec.engine.compile.abi import PORTABLE; print(PORTABLE)"
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1


@pytest.mark.parametrize(
    ("system", "machine", "features", "names"),
    [
        ("darwin", "arm64", frozenset(), ["macos-arm64"]),
        ("darwin", "x86_64", AVX2, []),
        ("linux", "aarch64", frozenset(("asimddp",)), ["linux-arm64"]),
        ("linux", "x86_64", AVX2, ["linux-x86-64-v3"]),
        ("linux", "x86_64", AVX512, ["linux-x86-64-v3"]),
        ("linux", "x86_64", AVX512 - {"fma"}, []),
        ("win32", "AMD64", AVX512, []),
    ],
)
def test_a_machine_takes_the_best_class_that_it_can_execute(
    system: str, machine: str, features: frozenset[str], names: list[str]
) -> None:
    assert [abi.name for abi in fitting_abis(system, machine, features)] == names


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Site-packages of a Linux machine with AVX2, with ExecuTorch and edgec's wheel inside."""
    sources = tmp_path / "edgec" / "engine"
    (tmp_path / "executorch" / "lib").mkdir(parents=True)
    (sources / "core").mkdir(parents=True)
    (sources / "CMakeLists.txt").write_text("project(edgec)\n")
    (sources / "core" / "a.cpp").write_text("int a;\n")
    monkeypatch.setattr(runner_build, "SOURCES", sources)
    monkeypatch.setattr(runner_build, "_executorch", lambda: (tmp_path / "executorch", "1.5.1"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(shipped, "processor_features", lambda: AVX2)
    runner_build._source_key.cache_clear()
    folder = sources / "built" / "linux-x86-64-v3"
    folder.mkdir(parents=True)
    write_facts(folder, sources=runner_build.sources_digest())
    yield folder
    runner_build._source_key.cache_clear()


def write_facts(folder: Path, sources: str, executorch: str = "1.5.1") -> None:
    (folder / "build.json").write_text(json.dumps({"sources": sources, "executorch": executorch}))


def test_the_engine_of_the_wheel_is_first(installed: Path, tmp_path: Path) -> None:
    found = find_build(tmp_path / "cache")
    assert found is not None and found.folder == installed and found.seconds == 0.0
    assert find_build(tmp_path / "cache", ARM64) is None, "a phone's is another"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("sources", "compiled from other sources"),
        ("executorch", "linked with ExecuTorch 1.6.0, and 1.5.1 is installed"),
        ("place", "ExecuTorch beside edgec, and the one that is installed lies in "),
        ("processor", "this is a processor without fma"),
        ("facts", "linked with ExecuTorch None"),
    ],
)
def test_an_engine_that_does_not_fit_is_not_used(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, said: str
) -> None:
    digest = runner_build.sources_digest()
    executorch = tmp_path / ("elsewhere" if change == "place" else "executorch")
    match change:
        case "sources":
            write_facts(installed, "of others")
        case "executorch":
            write_facts(installed, digest, "1.6.0")
        case "processor":
            monkeypatch.setattr(shipped, "processor_features", lambda: AVX2 - {"fma"})
        case "facts":
            (installed / "build.json").write_text("{")
    assert shipped_folder(installed.parents[1], digest, executorch, "1.5.1") is None
    assert said in why_unused(installed.parents[1], digest, executorch, "1.5.1")


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("linux", "aarch64"), ("darwin", "x86_64")])
def test_a_wheel_of_another_system_is_told_and_what_to_do(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    """pip refuses such a wheel; one that was unpacked, or whose folder another system shares, is told by edgec."""
    assert not engine_fault(), "it fits so far"
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert engine_fault().startswith("it is for linux-x86-64-v3, and this is ") and engine_fault().endswith(machine)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolError) as refused:
        build_runner(tmp_path / "cache")
    assert refused.value.code == "E955" and engine_fault() in refused.value.why
    assert "install the wheel of this system" in refused.value.fix


def plain_wheel(folder: Path) -> Path:
    """A wheel for every system, as pip makes it of the sources."""
    path = folder / "edgec-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("edgec/engine/__init__.py", "")
        archive.writestr("edgec-0.1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: edgec\nVersion: 0.1.0\n")
        archive.writestr(
            "edgec-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        digest = {name: base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()) for name in NAMES}
        rows = [f"{name},sha256={hashed.decode().rstrip('=')}," for name, hashed in digest.items()]
        archive.writestr("edgec-0.1.0.dist-info/RECORD", "\n".join([*rows, "edgec-0.1.0.dist-info/RECORD,,", ""]))
    return path


def test_a_wheel_holds_its_engines_under_the_tag_of_its_system(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / LIBRARY).write_bytes(b"library")
    made = pack_engines(plain_wheel(tmp_path), "macosx_14_0_arm64", {"macos-arm64": engine}, tmp_path)
    assert made.name == "edgec-0.1.0-py3-none-macosx_14_0_arm64.whl"
    with zipfile.ZipFile(made) as archive:
        assert archive.read(f"edgec/engine/built/macos-arm64/{LIBRARY}") == b"library"
        facts = archive.read("edgec-0.1.0.dist-info/WHEEL").decode()
        assert f"built/macos-arm64/{LIBRARY},sha256=" in archive.read("edgec-0.1.0.dist-info/RECORD").decode()
    assert "Root-Is-Purelib: false" in facts and "Tag: py3-none-macosx_14_0_arm64" in facts
    assert "py3-none-any" not in facts


@pytest.mark.parametrize("stale", [False, True])
def test_an_engine_of_other_sources_than_the_wheel_holds_is_told(tmp_path: Path, stale: bool) -> None:
    """A source that was deleted, and that pip packed from an earlier build, kept the engine from ever being used."""
    sources = {"CMakeLists.txt": "project(edgec)\n", "core/a.cpp": "int a;\n"}
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    facts = json.dumps({"sources": runner_build.sources_digest(tmp_path)})
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        for name, text in {**sources, "built/abi/build.json": facts, **({"core/b.h": ""} if stale else {})}.items():
            archive.writestr(f"edgec/engine/{name}", text)
    with zipfile.ZipFile(tmp_path / "a.whl") as archive:
        assert len(list(source_faults(archive, "edgec/engine/built/abi"))) == stale


def test_every_engine_of_a_wheel_is_known_by_name() -> None:
    assert {abi.name for kind in KINDS for abi in kind.abis} == {abi.name for abi in PORTABLE} <= ABIS.keys()
    assert all(kind.platform.endswith(abi.processor) for kind in KINDS for abi in kind.abis)
    assert kinds_named([]) == list(KINDS)
    with pytest.raises(InputError) as refused:
        kinds_named(["windows"])
    assert refused.value.code == "E888"


@pytest.mark.parametrize(
    "name",
    [
        "executorch-1.5.1-cp311-cp311-manylinux_2_28_aarch64.whl",
        "executorch-1.5.1-cp311-cp311-macosx_14_0_x86_64.whl",
        "executorch-1.5.0-cp311-cp311-macosx_14_0_arm64.whl",
        "torch-1.5.1-cp311-cp311-macosx_14_0_arm64.whl",
    ],
)
def test_the_wheel_of_another_system_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("executorch/lib/libexecutorch.dylib", "")
    with pytest.raises(ToolError) as refused:
        unpack_wheel(MACOS_ARM64, "1.5.1", tmp_path / "kept", tmp_path / name)
    assert refused.value.code == "E571" and "macos-arm64" in refused.value.what


GOOD = ReadBinary(
    ("libexecutorch.so", "libstdc++.so.6", "libc.so.6", "ld-linux-x86-64.so.2"),
    ("$ORIGIN/../../../../executorch/lib",),
    frozenset(("edgec_model_open",)),
    frozenset(("_Z4load",)),
    (("GLIBC", (2, 17)), ("GLIBC", (2, 34)), ("GLIBCXX", (3, 4, 30))),
    "x86_64",
)
PROGRAM = replace(
    GOOD,
    needed=(LIBRARY, "libstdc++.so.6", "libc.so.6"),
    places=("$ORIGIN",),
    undefined=frozenset(("edgec_model_open",)),
)
EXECUTORCH = replace(GOOD, exported=frozenset(("_Z4load",)), undefined=frozenset())


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (GOOD, ""),
        (replace(GOOD, needed=(*GOOD.needed, "libcuda.so.1")), "libcuda.so.1, which neither"),
        (replace(GOOD, needed=("libexecutorch.so", "libc.so.6")), "another C++ library"),
        (replace(GOOD, needed=("libstdc++.so.6", "libc.so.6")), "1 symbols that nothing exports, such as _Z4load"),
        (replace(GOOD, undefined=frozenset(("_Z4load", "_Z5store"))), "1 symbols that nothing exports, such as _Z5st"),
        (replace(GOOD, versions=(("GLIBC", (2, 38)),)), "needs GLIBC 2.38, more than 2.35"),
        (replace(GOOD, versions=(("GLIBCXX", (3, 4, 33)),)), "needs GLIBCXX 3.4.33"),
        (replace(GOOD, places=("/home/me/executorch/lib",)), "looks for libraries in /home/me"),
        (replace(GOOD, places=()), "no folder"),
        (replace(GOOD, processor="aarch64"), "is for aarch64, not x86_64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_system_would_not_have_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: ReadBinary, said: str
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libexecutorch.so").touch()
    read = {LIBRARY: library, "edgec-runner": PROGRAM, "libexecutorch.so": EXECUTORCH}
    monkeypatch.setattr("edgec.engine.compile.wheel_check.read_binary", lambda path: read[path.name])
    faults = list(engine_faults(tmp_path, LINUX_X86_64_V3, tmp_path))
    assert [said in fault for fault in faults] == ([True] if said else [])


@pytest.mark.long
def test_a_library_is_read_as_the_linker_made_it(tmp_path: Path) -> None:
    """By this machine's compiler: one symbol that it exports, one that it lacks, its place, the system's C library."""
    (tmp_path / "a.cpp").write_text(
        '#include <cstdlib>\nextern "C" int lacking();\n'
        'extern "C" int given() { return lacking() + std::atoi(std::getenv("A")); }\n'
    )
    made = tmp_path / "liba.so"
    line = [find_compiler(NATIVE), "-shared", "-fPIC", tmp_path / "a.cpp", "-o", made, "-Wl,-rpath,$ORIGIN/b"]
    subprocess.run([str(word) for word in line], check=True)
    read = read_binary(made)
    assert "given" in read.exported and read.undefined == {"lacking"} and read.places == ("$ORIGIN/b",)
    assert "libc.so.6" in read.needed and {what for what, _ in read.versions} == {"GLIBC"}
    (tmp_path / "text").write_text("no library")
    with pytest.raises(InputError) as refused:
        read_binary(tmp_path / "text")
    assert refused.value.code == "E887"


@pytest.mark.long
def test_pip_refuses_the_wheel_of_another_system_with_the_words_of_the_guide(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / LIBRARY).write_bytes(b"library")
    other = "macosx_14_0_arm64" if sys.platform == "linux" else "manylinux_2_35_x86_64"
    wheel = pack_engines(plain_wheel(tmp_path), other, {"another": engine}, tmp_path)
    line = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    said = "is not a supported wheel on this platform"
    assert done.returncode != 0 and said in done.stderr
    assert f"*{said}*" in (Path(__file__).parents[2] / "docs" / "install.md").read_text()


def test_two_systems_that_share_a_cache_have_builds_of_their_own(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same home on a network, or a folder that a container mounts: also where only the processor differs."""
    keys = set()
    machines = [("linux", "x86_64", "EPYC"), ("linux", "x86_64", "Xeon"), ("linux", "aarch64", "Neoverse-N1")]
    for system, machine, name in [*machines, ("darwin", "arm64", "Apple M2")]:
        monkeypatch.setattr(runner_build, "processor_identity", lambda machine=machine, name=name: (machine, name))
        runner_build._source_key.cache_clear()
        keys.add(runner_build._source_key(tmp_path / "executorch", "1.5.1", native_abi(system, machine)))
    assert len(keys) == 4
