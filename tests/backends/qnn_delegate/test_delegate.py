"""The hand-over to ExecuTorch's QNN partitioner, as far as it goes without a fitting SDK."""

from __future__ import annotations

from pathlib import Path

import pytest

import edgec
from edgec.backends.qnn_delegate import pte
from edgec.backends.static_artifact import Chip
from edgec.bundle.folder import open_bundle
from edgec.devices.runner.files import check_shell_artifact
from edgec.errors import InputError, ToolError
from edgec.runtime_py.verify.verify import verify
from tests.backends.qnn.test_context import programs
from tests.backends.qnn_delegate.stand_ins import SOC_MODEL, hand_over, plug_in, sdk_of_plug_in

PLUG_IN = pytest.mark.skipif(plug_in() is None, reason="needs onnxruntime-qnn")


@pytest.mark.slow
def test_a_bundle_says_what_it_is_made_for_and_that_nothing_was_run(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in writes the program, without delegates: all but Qualcomm's part is real."""
    monkeypatch.setattr("edgec.backends.qnn_delegate.sdk.fitting_sdk", lambda: tmp_path)
    monkeypatch.setattr(pte, "fitting_sdk", lambda: tmp_path)
    monkeypatch.setattr("edgec.backends.qnn_delegate.pte.subprocess.run", hand_over)
    out = tmp_path / "tiny.edgec"
    edgec.export(tiny_folder, target="snapdragon-8-elite", format="pte", recipe="float", context=128, out=out)
    manifest = open_bundle(out).manifest
    assert manifest.runtime.backends == ["QnnBackend"] and [m.name for m in manifest.methods] == ["prefill", "decode"]
    assert [(check.name, check.status) for check in manifest.device_checks] == [("predict", "not run")]
    assert "artifact" not in {rung.stage for rung in manifest.parity}
    with pytest.raises(ToolError) as error:
        edgec.load(out)
    assert error.value.code == "E588"
    assert {check.name: check.status for check in verify(out).checks}["artifact"] == "unavailable"
    with pytest.raises(InputError) as refusal:
        check_shell_artifact(manifest, "adb:0123")
    assert refusal.value.code == "E551"


@pytest.mark.slow
@PLUG_IN
def test_another_version_is_refused_by_executorch_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the version is checked: with a newer SDK the real hand-over goes as far as the chip, and no further."""
    root, needed = sdk_of_plug_in(tmp_path / "sdk")
    monkeypatch.setenv("LD_LIBRARY_PATH", needed)
    monkeypatch.setattr(pte, "fitting_sdk", lambda: root)
    with pytest.raises(InputError) as error:
        pte.lower_for(programs("llama"), tmp_path / "model.pte", lambda name, done, total: None, Chip(SOC_MODEL))
    assert error.value.code == "E587" and "QNN backend" in error.value.why
    assert not (tmp_path / "model.pte").exists() and not list(tmp_path.glob("*.pt2"))
