"""What is said about installing edgec agrees: pyproject.toml, Makefile, doctor, docs/install.md, Dockerfile."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from edgec.runtime_py import doctor

ROOT = Path(__file__).parents[1]
INSTALL = (ROOT / "docs" / "install.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
VERSIONS = [(3, minor) for minor in range(9, 20)]
Version = tuple[int, int]


def project() -> dict[str, Any]:
    result: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return result


def accepted() -> list[Version]:
    """The versions of Python that pip installs edgec on."""
    wanted = SpecifierSet(project()["requires-python"])
    return [version for version in VERSIONS if wanted.contains(dotted(version))]


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


def named(text: str) -> list[Version]:
    """The versions of Python that a text names, each once."""
    return sorted({(3, int(minor)) for minor in re.findall(r"(?<!\d)3\.(\d+)\b", text)})


def test_the_classifiers_name_what_pip_accepts() -> None:
    texts = [text for text in project()["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert named(" ".join(texts)) == accepted()


@pytest.mark.parametrize("version", VERSIONS, ids=dotted)
def test_the_makefile_and_doctor_accept_the_same(version: Version, monkeypatch: pytest.MonkeyPatch) -> None:
    program = re.search(r"\$\(PYTHON\) -c '(import sys; .*?)'", MAKEFILE)
    assert program is not None
    stands_in = f"import sys; sys.version_info = {(*version, 0)}; {program[1]}"
    made = subprocess.run([sys.executable, "-c", stands_in], check=False).returncode == 0
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(version_info=(*version, 0)))
    (check,) = doctor._python()
    assert [made, not check.fatal] == [version in accepted()] * 2
    assert named(check.fix) == (accepted() if check.fatal else [])


def test_the_words_name_the_same_versions() -> None:
    refusal = next(line for line in MAKEFILE.splitlines() if "edgec needs Python" in line)
    assert named(refusal.partition(":")[0]) == accepted()
    assert named(next(line for line in MAKEFILE.splitlines() if line.startswith("PYTHON ?="))) == accepted()
    assert named(next(line for line in INSTALL.splitlines() if line.startswith("- macOS"))) == accepted()
    tried = [line for line in INSTALL.splitlines() if re.match(r"\| 3\.\d+ ", line)]
    assert named(" ".join(line.split("|")[1] for line in tried)) == accepted()


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each on one line; comments left out."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return [(word, rest) for word, rest in pairs]


def steps(name: str) -> list[str]:
    return [rest for word, rest in instructions() if word == name]


def left_out(path: str) -> bool:
    """Whether .dockerignore keeps a file, or a folder above it, from the image."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    rooted = [f"*/{one[3:]}" if one.startswith("**/") else f"/{one}" for one in patterns]
    above = [path, *map(str, Path(path).parents)][:-1]
    return any(fnmatch(f"/{each}", one) for each in above for one in rooted)


def test_the_dockerfile_copies_what_git_keeps_and_nothing_else() -> None:
    sources = [word for rest in steps("COPY") for word in shlex.split(rest)[:-1]]
    assert sources and all((ROOT / source).exists() for source in sources)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    assert [path for path in listed.stdout.splitlines() if left_out(path)] == []
    for path in (".git/HEAD", ".venv/bin/python", "build/demo", "ir/__pycache__/a.pyc", "a.edgec/manifest.json"):
        assert left_out(path), path


def test_the_dockerfile_installs_packages_that_the_docs_name() -> None:
    (installing,) = (rest for rest in steps("RUN") if "apt-get install" in rest)
    words = shlex.split(installing.partition("apt-get install")[2].partition("&&")[0])
    packages = [word for word in words if not word.startswith("-")]
    assert packages
    section = INSTALL.partition("## Docker")[2]
    assert [package for package in packages if f"`{package}`" not in section] == []


def test_the_dockerfile_has_a_python_that_is_accepted_and_torch_as_pinned() -> None:
    runs = " ".join(steps("RUN"))
    assert named(runs) == [(3, 11)] and (3, 11) in accepted()
    (torch,) = re.findall(r'"(torch==[^"]*)"', runs)
    assert torch in project()["dependencies"]
    assert f'"{torch}"' in MAKEFILE and f'"{torch}"' in INSTALL
    assert any("pip install" in run and "-e ." in run for run in steps("RUN"))


def test_its_default_command_is_the_demo_of_make() -> None:
    (command,) = map(json.loads, steps("CMD"))
    made = re.search(r"^demo:.*\n\t\$\(BIN\)/(python .*)$", MAKEFILE, re.MULTILINE)
    assert made is not None
    values = {"MODEL": "examples/tiny-stories", "DEMO": "build/demo"}
    line = re.sub(r"\$\((\w+)\)", lambda match: values.get(match[1], match[1]), made[1])
    assert line.startswith(" ".join(command))
    assert all((ROOT / word).exists() for word in command if word.startswith("examples/"))


def test_its_build_argument_is_in_the_docs() -> None:
    assert steps("ARG")
    assert all(f"--build-arg {name}=" in INSTALL for name in steps("ARG"))
