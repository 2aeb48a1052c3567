"""What an export says of NPUs: which package is missing, what of it, and that nothing is written where all is there."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgec.backends.litert import npu
from edgec.backends.litert.npu import NPU_PACKAGES, npu_refusal
from edgec.devices.targets import load_target
from edgec.errors import EdgecError
from edgec.exporter.resolve.target_choice import on_unit


def _installed(monkeypatch: pytest.MonkeyPatch, name: str, file: Path, **members: Any) -> None:
    module = ModuleType(name)
    module.__spec__, module.__file__ = ModuleSpec(name, None), str(file)
    for member, value in members.items():
        setattr(module, member, value)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("vendor", NPU_PACKAGES)
def test_each_missing_part_is_named(vendor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NPU_PACKAGES[vendor]
    absent = npu_refusal(vendor, "Chip")
    assert (absent.code, absent.exit_code) == ("E963", 3) and f"pip install {needed.package}" in absent.fix
    libraries, plug_in = tmp_path / "sdk", tmp_path / "vendors" / needed.compiler / "compiler"
    libraries.mkdir()
    _installed(monkeypatch, needed.module, tmp_path / "x.py", path_to_sdk_libs=lambda: libraries)
    _installed(monkeypatch, "ai_edge_litert", tmp_path / "__init__.py")
    monkeypatch.setattr(npu, "_version", lambda package: "1.2.3")
    without = npu_refusal(vendor, "Chip")
    assert (without.code, without.exit_code) == ("E964", 3) and "no plug-in" in without.why
    plug_in.mkdir(parents=True)
    (plug_in / "plug_in.so").touch()
    assert str(libraries) in npu_refusal(vendor, "Chip").why
    (libraries / "libcompiler.so").touch()
    found = npu_refusal(vendor, "Chip")
    assert (found.code, found.exit_code) == ("E965", 1) and f"{needed.package} 1.2.3 is here" in found.why


def test_a_package_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = NPU_PACKAGES["google"]
    plug_in = tmp_path / "vendors" / needed.compiler / "compiler"
    plug_in.mkdir(parents=True)
    (plug_in / "plug_in.so").touch()
    _installed(monkeypatch, needed.module, tmp_path / "x.py")
    _installed(monkeypatch, "ai_edge_litert", tmp_path / "__init__.py")
    assert "does not say where" in npu_refusal("google", "Chip").why


@pytest.mark.parametrize(("phone", "code"), [("pixel-9", "E963"), ("iphone-16-pro", ""), ("galaxy-s24-exynos", "E869")])
def test_it_is_what_an_export_for_such_an_npu_says(phone: str, code: str) -> None:
    target = load_target(phone)
    if not code:
        assert on_unit(target, "npu").unit == "npu"
        return
    with pytest.raises(EdgecError) as caught:
        on_unit(target, "npu")
    assert caught.value.code == code
