"""Encoders and vision models through ``edgec export --target iphone``."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.runtime_py.verify.verify import verify

FACTORIES = {name: f"tests.exporter.module_factories:{name}" for name in ("vit", "bert")}


# Vision models for iPhones in the quick run, text encoders beside other formats.
QUICK = ("vit", "mlpackage")
CASES = [(kind, format) for kind in FACTORIES for format in ("mlpackage", "pte", "aimodel")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "format"), [pytest.param(*case, marks=[] if case == QUICK else [pytest.mark.slow]) for case in CASES]
)
def test_a_module_becomes_one_function(kind: str, format: str, tmp_path: Path) -> None:
    out = tmp_path / f"{kind}.edgec"
    bundle = edgec.export(FACTORIES[kind], target="iphone", format=format, recipe="float", out=out)
    manifest = open_bundle(bundle).manifest
    assert [method.name for method in manifest.methods] == ["main"]
    assert manifest.parity[-1].stage == "artifact"
    assert manifest.parity[-1].passed
    assert verify(bundle).passed
