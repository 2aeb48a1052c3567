"""The top-level folders are ``edgec.*`` everywhere: editable install, sdist, wheel, type checkers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from edgec.cli.app import COMMANDS
from edgec.engine.compile.build import build_runner

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "edgec"
FOLDERS = ("apps", "backends", "bundle", "cli", "devices", "engine", "exporter", "ir", "passes", "runtime_py")
DATA = (".toml", ".csv", ".txt", ".json", ".cpp", ".h", ".template")
# Links that hold no code: the guide, and the example model.
GUIDE, EXAMPLE = ("docs", "../../docs"), ("example", "../../examples/tiny-stories")
LEFT_OUT = (".*", "build", "dist", "*.egg-info", "__pycache__", "*.edgec", "tests")
HEAVY = ("torch", "transformers", "executorch", "torchao", "scipy", "numpy", "psutil", "tokenizers")
# What only some output needs: tables, bars, Markdown in colour, chat templates.
UNPRINTED = ("rich.progress", "rich.markdown", "markdown_it", "pygments", "edgec.bundle.chat_template")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def build(kind: str, tree: Path, out: Path) -> Path:
    """Call the build backend as pip does, without isolation and so without network."""
    call = f"from setuptools.build_meta import build_{kind} as build; build(r'{out}')"
    done = subprocess.run([sys.executable, "-c", call], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.glob("edgec-*.tar.gz" if kind == "sdist" else "edgec-*.whl"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tarfile.TarFile]:
    """An sdist made from a copy of the tree."""
    base = tmp_path_factory.mktemp("packaging")
    shutil.copytree(ROOT, base / "tree", symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    with tarfile.open(build("sdist", base / "tree", base)) as archive:
        yield archive


@pytest.fixture(scope="module")
def wheel(sdist: tarfile.TarFile, tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel made from that sdist."""
    base = tmp_path_factory.mktemp("wheel")
    sdist.extractall(base / "unpacked", filter="data")
    return zipfile.ZipFile(build("wheel", next((base / "unpacked").iterdir()), base))


def in_tree() -> set[str]:
    """Every source and data file of the package, under the name it has once installed."""
    named = {f"edgec/{path.name}" for path in PACKAGE.iterdir() if path.is_file()}
    for folder in FOLDERS:
        files = (path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", *DATA))
        named |= {f"edgec/{path.relative_to(ROOT)}" for path in files}
    projects = (path for name in ("swift", "android") for path in (ROOT / "apps" / name).rglob("*"))
    named |= {f"edgec/{path.relative_to(ROOT)}" for path in projects if path.is_file()}
    named |= {f"edgec/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    return named | {f"edgec/example/{path.name}" for path in (ROOT / "examples" / "tiny-stories").iterdir()}


@pytest.mark.long
def test_the_wheel_holds_the_tree(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if name.startswith("edgec/")}
    assert packed == in_tree()
    assert any(name.endswith("probe_text.txt") for name in packed)
    assert {"edgec/engine/CMakeLists.txt", "edgec/engine/include/edgec/engine.h"} <= packed
    assert {f"edgec/{path.relative_to(ROOT)}" for path in (ROOT / "engine").rglob("*.cpp")} <= packed


def test_the_sdist_carries_what_builds_and_shows_it(sdist: tarfile.TarFile) -> None:
    names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {
        "Makefile",
        "docs/images/report.png",
        "examples/train_stories.py",
        "examples/tiny-stories/config.json",
        "benchmarks/architectures/qwen3-0.6b.json",
    } <= names
    assert not [name for name in names if name.endswith((".pyc", ".pt", ".part"))]


@pytest.mark.slow
def test_an_installed_wheel_does_what_the_tree_does(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """A new environment with the wheel and the libraries of this one: help, guide, example, engine, export, run."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel.filename)], check=True
    )
    own = next((tmp_path / "venv").glob("lib/*/site-packages"))
    # A path in a .pth file is searched last, and the editable install's own .pth files there are not read.
    (own / "libraries.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def called(*words: str) -> str:
        line = [str(python.with_name("edgec")), *words]
        done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [str(python), "-c", "import edgec; print(edgec.__file__)"]
    installed = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(installed.strip()).parent == own / "edgec"
    assert called("help", "recipes") == (ROOT / "docs" / "recipes.md").read_text()
    assert "iphone-16-pro" in called("targets")
    # The same sources have the same key: the engine that the tests compile is found and not compiled again.
    build_runner()
    assert "compiled before" in called("runner", "build")
    # The example that the wheel carries, by its name from a folder that has no such path.
    assert "Google Pixel 8" in called("plan", "examples/tiny-stories", "--target", "pixel-8-cpu")
    called("export", "tiny-stories", "--recipe", "4bit", "--out", "example.edgec")
    assert called("run", "example.edgec", "--raw", "-p", "Once", "--max-new-tokens", "5").strip()
    assert "example.edgec" in called("ls")


def test_the_wheel_carries_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    (licence,) = (name for name in wheel.namelist() if name.endswith("/LICENSE"))
    assert wheel.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert b"Apache License" in wheel.read(licence)
    (scripts,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"edgec = edgec.__main__:main" in wheel.read(scripts)


def test_links_are_relative_and_lead_to_the_folders() -> None:
    links = {path.name: path for path in PACKAGE.iterdir() if path.is_symlink()}
    leading = {**{name: f"../../{name}" for name in FOLDERS}, **dict((GUIDE, EXAMPLE))}
    assert {name: str(link.readlink()) for name, link in links.items()} == leading
    assert all(links[name].resolve() == ROOT / name for name in (*FOLDERS, GUIDE[0]))


def test_nothing_in_the_tree_dangles() -> None:
    links = [path for path in PACKAGE.iterdir() if path.is_symlink()]
    links += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_symlink()]
    assert [path for path in links if not path.exists()] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_imported_as_part_of_edgec_only(folder: str) -> None:
    module = import_module(f"edgec.{folder}")
    assert Path(str(module.__file__)).resolve() == ROOT / folder / "__init__.py"
    assert folder not in sys.modules


def test_every_folder_with_code_is_a_package() -> None:
    with_code = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert [path for path in sorted(with_code) if not (path / "__init__.py").is_file()] == []


def test_the_type_checker_and_ruff_know_every_link() -> None:
    tools = project()["tool"]
    links = {f"src/edgec/{folder}" for folder in FOLDERS}
    assert set(tools["ruff"]["extend-exclude"]) >= links, "ruff would lint each file twice"
    assert "src" in tools["mypy"]["files"]


def loaded_by(code: str, folder: Path = ROOT) -> set[str]:
    """The heavy modules that a piece of code imports, in a process of its own."""
    line = [sys.executable, "-c", f"import sys; {code}; print('\\0', *sys.modules)"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {*HEAVY, *UNPRINTED, "rich"} & set(done.stdout.split("\0")[1].split())


COMMAND_LINES = [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]


@pytest.mark.parametrize("arguments", COMMAND_LINES, ids=" ".join)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(f"from edgec.cli.app import run_cli; assert run_cli({arguments!r}) == 0") == set()


@pytest.mark.parametrize(
    ("arguments", "status", "imported"),
    [
        (["export", "--target", "iphone"], 1, set()),
        (["no-such-command"], 1, set()),
        (["ls"], 0, {"rich"}),
        (["targets"], 0, {"rich"}),
        (["help", "recipes"], 0, {"rich"}),
    ],
    ids=str,
)
def test_a_short_answer_imports_nothing_heavy(
    arguments: list[str], status: int, imported: set[str], tmp_path: Path
) -> None:
    called = f"from edgec.cli.app import run_cli; assert run_cli({arguments!r}) == {status}"
    assert loaded_by(called, tmp_path) == imported


def test_importing_edgec_is_light() -> None:
    assert loaded_by("import edgec") == set()


def test_the_version_is_stated_once_per_place_and_equal() -> None:
    import edgec

    assert project()["project"]["version"] == edgec.__version__
    assert f"[{edgec.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
