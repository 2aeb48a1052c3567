"""Encoders and vision models for Android: ONNX Runtime, Vulkan, and a Snapdragon's Hexagon processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.bundle.manifest import Manifest
from edgec.runtime_py.verify.verify import verify

FACTORIES = {name: f"tests.exporter.module_factories:{name}" for name in ("vit", "bert")}


def exported(kind: str, folder: Path, **how: Any) -> tuple[Path, Manifest]:
    out = edgec.export(FACTORIES[kind], out=folder / f"{kind}.edgec", **how)
    return out, open_bundle(out).manifest


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["float", "8bit"])
@pytest.mark.parametrize("kind", ["bert", "vit"])
def test_onnx_runtime_executes_a_module(kind: str, recipe: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    out, manifest = exported(kind, tmp_path, target="android-cpu", format="onnx", recipe=recipe)
    assert [method.name for method in manifest.methods] == ["main"]
    assert manifest.parity[-1].stage == "artifact" and manifest.parity[-1].passed
    assert "ONNX Runtime" in manifest.parity[-1].note
    checks = {check.name: check.status for check in verify(out).checks}
    assert checks["artifact"] == checks["function vectors"] == "passed"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vit", "bert"])
def test_vulkan_is_lowered_and_never_run(kind: str, tmp_path: Path) -> None:
    out, manifest = exported(kind, tmp_path, target="android-gpu", recipe="float")
    assert manifest.delegation is not None and manifest.delegation.delegates > 0
    assert "artifact" not in {rung.stage for rung in manifest.parity}
    assert {check.name: check.status for check in verify(out).checks}["artifact"] == "unavailable"


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["8bit"])
@pytest.mark.parametrize("kind", FACTORIES)
def test_hexagon_computes_a_module_in_fixed_point(kind: str, recipe: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_qnn")
    out, manifest = exported(kind, tmp_path, target="snapdragon-8-elite", recipe=recipe)
    assert [rung.stage for rung in manifest.parity][-3:] == ["fixed point", "artifact", "artifact"]
    assert manifest.parity[-2].passed and "simulated" in manifest.parity[-2].note
    # Look-ups of token ids and the padding mask are the CPU's; an image has none of either.
    assert ("host_main.onnx" in " ".join(file.path for file in manifest.files)) == (kind == "bert")
    assert verify(out).passed
