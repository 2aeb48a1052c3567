"""Vulkan artifacts are lowered and reported on; nothing claims that they were executed."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.bundle.folder import open_bundle
from edgec.errors import ToolError
from edgec.runtime_py.verify.verify import verify

# The quick run has a module for Vulkan in tests/exporter/test_android_modules.py.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bundle(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vulkan") / "tiny.edgec"
    return edgec.export(tiny_folder, target="android-gpu", recipe="float", context=128, out=out)


def test_the_manifest_tells_what_is_inside_and_that_nothing_was_run(bundle: Path) -> None:
    manifest = open_bundle(bundle).manifest
    assert manifest.delegation is not None and manifest.delegation.backend == "vulkan"
    assert manifest.delegation.delegates > 0 and manifest.delegation.delegated_share > 0.5
    assert [(check.name, check.status) for check in manifest.device_checks] == [("predict", "not run")]
    assert "artifact" not in {rung.stage for rung in manifest.parity}


def test_it_is_not_executed_here(bundle: Path) -> None:
    with pytest.raises(ToolError) as error:
        edgec.load(bundle)
    assert error.value.code == "E597"
    report = verify(bundle)
    assert report.passed and {c.name: c.status for c in report.checks}["artifact"] == "unavailable"
