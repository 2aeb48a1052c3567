"""Packages that a system cannot have are told at once, with what to do instead."""

from __future__ import annotations

import platform
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from edgec.errors import ToolError
from edgec.exporter.options import ExportOptions
from edgec.exporter.resolve.resolved import resolve_options
from edgec.platform_parts import LINUX_ARM, LINUX_X86, MAC, PARTS, System, lacking_parts, require_parts

ROOT = Path(__file__).parents[1]


def on(monkeypatch: pytest.MonkeyPatch, system: System) -> None:
    monkeypatch.setattr(sys, "platform", system[0])
    monkeypatch.setattr(platform, "machine", lambda: system[1])


@pytest.mark.parametrize(
    ("system", "lacking"),
    [(LINUX_X86, []), (LINUX_ARM, ["coremltools", "coreai-core"]), (MAC, ["onnxruntime-qnn"])],
)
def test_each_system_lacks_what_its_index_lacks(system: System, lacking: list[str]) -> None:
    assert [part.package for part in lacking_parts(system)] == lacking


@pytest.mark.parametrize("system", [LINUX_X86, LINUX_ARM, MAC])
def test_the_markers_of_pyproject_say_the_same(system: System) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    asked = {part.package: Requirement(text) for part in PARTS for text in texts if text.startswith(part.package)}
    assert len(asked) == len(PARTS)
    for part in PARTS:
        marker = asked[part.package].marker
        assert marker is not None
        fits = marker.evaluate({"sys_platform": system[0], "platform_machine": system[1]})
        assert fits == (not part.lacks(system)), part.package


@pytest.mark.parametrize(
    ("target", "format", "system", "package"),
    [
        ("iphone-16-pro", None, LINUX_ARM, "coremltools"),
        ("iphone-16-pro", "mlpackage", LINUX_ARM, "coremltools"),
        ("iphone-16-pro", "aimodel", LINUX_ARM, "coreai-core"),
        ("galaxy-s25", "qnn", MAC, "onnxruntime-qnn"),
    ],
)
def test_an_export_that_cannot_be_here_is_refused_before_a_model_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, target: str, format: str | None, system: System, package: str
) -> None:
    on(monkeypatch, system)
    with pytest.raises(ToolError) as refused:
        resolve_options(ExportOptions("no/such-model", target=target, format=format))
    assert (refused.value.code, refused.value.exit_code) == ("E889", 3)
    assert package in refused.value.why and refused.value.fix


def test_what_is_here_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, MAC)
    require_parts(("coremltools", "executorch"), "--target")
