from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgec.cli.app import run_cli
from edgec.engine.compile import build as runner_build
from edgec.engine.compile.abi import find_compiler
from edgec.engine.compile.build import RunnerBuild, build_runner, find_build
from edgec.engine.compile.cmake import find_tool
from edgec.errors import InputError, ToolError

LIBRARY_SOURCE = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'
PROGRAM_SOURCE = '#include <cstdio>\nextern "C" int answer();\nint main() { std::printf("%d\\n", answer()); }\n'


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree in the engine's shape, with its CMakeLists.txt, that compiles in a moment."""
    tree = tmp_path / "sources"
    for name in ("core", "kernels", "runner"):
        (tree / name).mkdir(parents=True)
    shutil.copy(runner_build.SOURCES / "CMakeLists.txt", tree)
    (tree / "core" / "answer.cpp").write_text(LIBRARY_SOURCE)
    (tree / "runner" / "main.cpp").write_text(PROGRAM_SOURCE)
    monkeypatch.setattr(runner_build, "SOURCES", tree)
    runner_build._source_key.cache_clear()
    yield tree
    runner_build._source_key.cache_clear()


@pytest.mark.long
def test_a_build_runs_and_is_found_again(sources: Path, tmp_path: Path) -> None:
    assert find_build(tmp_path) is None
    said: list[str] = []
    steps: list[tuple[int, int]] = []
    first = build_runner(tmp_path, said.append, compiled=lambda done, files: steps.append((done, files)))
    assert subprocess.run([first.runner], capture_output=True, check=True).stdout == b"42\n"
    again = build_runner(tmp_path, said.append)
    assert (again.folder, again.seconds) == (first.folder, 0.0) and first.seconds > 0
    assert len(said) == 1 and find_build(tmp_path) == again
    assert json.loads((first.folder / "build.json").read_text())["executorch"] == "1.5.1"
    assert steps[0] == (0, 2) and steps[-1] == (2, 2) and steps == sorted(steps)
    assert {path.name for path in first.folder.iterdir()} == {"libedgec.so", "edgec-runner", "build.json"}


@pytest.mark.long
@pytest.mark.parametrize("change", ["core/answer.cpp", "kernels/new.h", "runner/main.cpp", "CMakeLists.txt"])
def test_other_sources_are_another_build(sources: Path, tmp_path: Path, change: str) -> None:
    first = build_runner(tmp_path)
    with (sources / change).open("a") as file:
        file.write("# changed\n" if change.endswith(".txt") else "// changed\n")
    runner_build._source_key.cache_clear()
    assert find_build(tmp_path) is None
    assert build_runner(tmp_path).folder != first.folder


@pytest.mark.long
def test_a_deleted_environment_takes_no_other_ones_build_along(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, version = runner_build._executorch()
    other = tmp_path / "other" / "executorch"
    other.mkdir(parents=True)
    for name in ("lib", "include"):
        (other / name).symlink_to(package / name)
    with monkeypatch.context() as there:
        there.setattr(runner_build, "_executorch", lambda: (other, version))
        build_runner(tmp_path)
    shutil.rmtree(other)
    assert find_build(tmp_path) is None
    assert subprocess.run([build_runner(tmp_path).runner], capture_output=True, check=True).stdout == b"42\n"


def test_a_build_outlives_the_link_that_led_to_its_libraries(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, _ = runner_build._executorch()
    link = tmp_path / "executorch"
    link.symlink_to(package)
    with monkeypatch.context() as there:
        there.setattr(runner_build, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[str(link)]))
        made = build_runner(tmp_path)
    link.unlink()
    assert find_build(tmp_path) == RunnerBuild(made.folder)
    assert subprocess.run([made.runner], capture_output=True, check=True).stdout == b"42\n"


@pytest.mark.long
def test_a_build_outlives_its_compiler(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build_runner(tmp_path)
    monkeypatch.setenv("CXX", "/nowhere/c++")
    assert build_runner(tmp_path).folder == made.folder
    shutil.rmtree(made.folder)
    with pytest.raises(ToolError) as error:
        build_runner(tmp_path)
    assert (error.value.code, error.value.exit_code) == ("E311", 3) and "/nowhere/c++" in error.value.why


def test_the_compiler_is_cxx_or_the_first_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("g++", "clang++"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert find_compiler() == tmp_path / "g++"
    monkeypatch.setenv("CXX", "clang++")
    assert find_compiler() == tmp_path / "clang++"


def test_what_does_not_compile_is_reported_with_the_compilers_words_and_leaves_nothing(
    sources: Path, tmp_path: Path
) -> None:
    (sources / "core" / "answer.cpp").write_text("int answer() { return frobnicate(); }\n")
    with pytest.raises(ToolError) as error:
        build_runner(tmp_path)
    assert error.value.code == "E312" and "frobnicate" in error.value.why
    assert error.value.where == str(sources / "core" / "answer.cpp") and find_build(tmp_path) is None
    assert [path.suffix for path in (tmp_path / "runner").iterdir()] == [".lock"]


def test_without_cmake_or_ninja_the_package_to_install_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("cmake", "ninja"):
        with pytest.raises(ToolError) as error:
            find_tool(name)
        assert (error.value.code, error.value.exit_code) == ("E311", 3) and f"pip install {name}" in error.value.fix
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert find_tool(name) == tmp_path / name


@pytest.mark.long
def test_flags_of_the_shell_are_not_those_of_a_build(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXXFLAGS", "-DNO_SUCH_FLAG -Werror -Wunused-macros -fno-such-option")
    monkeypatch.setenv("LDFLAGS", "-lno_such_library")
    assert build_runner(tmp_path).seconds > 0


@pytest.mark.long
def test_of_two_at_once_one_compiles(sources: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(build_runner, (tmp_path, tmp_path)))
    assert builds[0].folder == builds[1].folder
    assert sorted(build.seconds > 0 for build in builds) == [False, True]


@pytest.mark.long
def test_the_command_names_library_and_runner(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path))
    assert run_cli(["runner", "build", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert Path(fields["library"]).is_file() and Path(fields["runner"]).is_file() and fields["compile_s"] >= 0
    assert run_cli(["runner", "build"]) == 0
    assert "compiled before" in capsys.readouterr().out
    assert run_cli(["runner", "dance"]) == 1


@pytest.mark.parametrize("name", ["a file/below", "n" * 300])
def test_a_cache_that_cannot_be_made_is_named_with_its_variable(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path / name))
    with pytest.raises(InputError) as refused:
        build_runner()
    assert refused.value.code == "E121" and "EDGEC_CACHE_DIR" in refused.value.fix and "--out" not in str(refused.value)
    assert name in refused.value.where
