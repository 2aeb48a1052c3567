from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from edgec.errors import ToolError
from edgec.installation import install_command
from edgec.runtime_py import doctor
from edgec.runtime_py.doctor import DoctorCheck, diagnose, package_check


def by_name() -> dict[str, DoctorCheck]:
    return {check.name: check for check in diagnose()}


def test_this_installation_is_complete() -> None:
    checks = by_name()
    assert not [check for check in checks.values() if check.fatal]
    assert checks["executorch"].found == "1.5.1"
    assert checks["backend XnnpackBackend"].status == "ok"
    assert not {"pytest", "mypy"} & set(checks), "development tools are not a user's concern"


@pytest.mark.parametrize(
    ("text", "extra", "status"),
    [
        ("numpy", "", "ok"),
        ("numpy>=999", "", "missing"),
        ("no-such-package-here", "", "missing"),
        ("no-such-package-here>=2", "tasks", "absent"),
    ],
)
def test_packages_against_their_pins(text: str, extra: str, status: str) -> None:
    check = package_check(Requirement(text), extra)
    assert check.status == status
    assert ("pip install" in check.fix) == (status != "ok")


def test_every_package_is_named_once_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment without any of them, by what pyproject.toml says."""

    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {name: list(map(Requirement, texts)) for name, texts in project["optional-dependencies"].items()}
    monkeypatch.setattr(doctor, "version", absent)
    checks = list(doctor._packages())
    names = [check.name for check in checks]
    wanted = {each.name for name, needed in extras.items() if name != "dev" for each in needed}
    assert sorted(names) == sorted(wanted | {Requirement(text).name for text in project["dependencies"]})
    for check in (check for check in checks if check.status == "absent"):
        extra = re.search(r'\[(\w+)\]"$', check.fix)
        assert extra is not None and check.name in {each.name for each in extras[extra[1]]}
    assert {check.name: check.fix for check in checks}["boto3"] == install_command("aws")


def test_packages_of_another_platform_are_no_concern(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = ['numpy; sys_platform == "plan9"', 'rich; sys_platform == "plan9" and extra == "sweep"', "numpy<0.1"]
    monkeypatch.setattr(doctor, "requires", lambda name: elsewhere)
    assert [(check.name, check.status) for check in doctor._packages()] == [("numpy", "missing")]


def test_a_kernel_that_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "KERNELS", ("aten::no_such.out",))
    assert by_name()["kernel aten::no_such.out"].fatal


def test_no_runtime_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ToolError("none", why="not installed", code="E301")

    monkeypatch.setattr(doctor, "runtime", refuse)
    assert by_name()["ExecuTorch runtime"].fatal


def test_little_memory_and_no_tools_are_said_but_not_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOW_MEMORY", 1e18)
    monkeypatch.setenv("PATH", "")
    checks = by_name()
    assert checks["memory available"].status == "low" and checks["adb"].status == "absent"
    assert not any(check.fatal for check in checks.values())


def test_the_engine_needs_a_compiler_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGEC_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert "on first use" in by_name()["edgec engine"].found
    monkeypatch.setenv("PATH", "")
    check = by_name()["edgec engine"]
    assert check.status == "absent" and "--kernels standard" in check.fix


def test_exit_status_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = DoctorCheck("torch", "missing", "not installed", 'pip install "torch[x]"')
    monkeypatch.setattr(doctor, "diagnose", lambda: (broken, DoctorCheck("rich", "ok", "15")))
    assert doctor.examine(as_json=True) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["missing"] == ["torch"] and said["ok"] is False
    assert doctor.examine(as_json=False) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["ok      rich: 15", "missing torch: not installed"], "what is not in order comes last"
    assert lines[2].strip() == 'fix: pip install "torch[x]"', "brackets are text, not markup"
    monkeypatch.setattr(doctor, "diagnose", lambda: (DoctorCheck("rich", "ok", "15"),))
    assert doctor.examine(as_json=True) == 0


def test_a_python_that_rosetta_translates_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_translated", lambda: True)
    check = by_name()["processor"]
    assert check.fatal and "Rosetta" in check.found and "arm64" in check.fix


def test_the_wheel_of_another_system_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "engine_fault", lambda: "it is for macos-arm64, and this is Linux on x86_64")
    check = by_name()["engine in edgec's wheel"]
    assert check.status == "absent" and "macos-arm64" in check.found and "wheel of this system" in check.fix
