"""The rung that executes an artifact by the phone's own runner; in place of qemu, the same runner for this machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgec
from edgec.bundle.findings import Rung
from edgec.bundle.folder import read_manifest
from edgec.engine.compile.build import RunnerBuild, build_runner
from edgec.errors import BudgetError
from edgec.exporter.parity.emulated import STAGE
from edgec.exporter.report.summary import summary_json
from edgec.exporter.resolve import emulation
from edgec.runtime_py.verify import emulated
from edgec.runtime_py.verify.emulated import EmulatedRunner, Floats

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-stories"
CAN_EMULATE = shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")


@pytest.fixture
def own_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's runner in place of the emulated one."""

    def line(build: RunnerBuild, arguments: Sequence[str], cpu: str) -> list[str]:
        return [str(build_runner().runner), *arguments]

    monkeypatch.setattr(emulated, "qemu_line", line)
    monkeypatch.setattr(emulated, "build_runner", lambda abi: build_runner())
    monkeypatch.setattr(emulation, "_compile", lambda progress: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def exported(folder: Path, out: Path, recipe: str = "8bit", **given: Any) -> Path:
    asked: dict[str, Any] = {"emulate": True, **given}
    return edgec.export(folder, target="android-cpu", recipe=recipe, out=out, **asked)


def rung_of(bundle: Path) -> Rung:
    (rung,) = [rung for rung in read_manifest(bundle).parity if rung.stage == STAGE]
    return rung


@pytest.mark.long
@pytest.mark.usefixtures("own_runner")
def test_the_runner_answers_the_probes_calls_and_all_is_recorded(tiny_folder: Path, tmp_path: Path) -> None:
    bundle = exported(tiny_folder, tmp_path / "x.edgec")
    rung, manifest = rung_of(bundle), read_manifest(bundle)
    # 16 rows of the chunk, 16 of its part, three single tokens, twice 16 rows.
    assert rung.positions == 67 and rung.gated and rung.half == "lowering" and rung.reference == "artifact"
    assert rung.note.startswith("simulated: ") and "205 tokens in 7 calls; the same bits" in rung.note
    assert rung.max_abs == 0.0, "the same kernels as the artifact's rung: any other call would give other logits"
    assert manifest.build.not_emulated == "" and "simulated" in (bundle / "report.html").read_text()


@pytest.mark.long
def test_an_export_that_does_not_run_it_says_why(tiny_folder: Path, tmp_path: Path) -> None:
    bundle = exported(tiny_folder, tmp_path / "x.edgec", emulate=False)
    manifest = read_manifest(bundle)
    assert manifest.build.not_emulated == summary_json(manifest)["not_emulated"] == "--no-emulate"
    assert not [rung for rung in manifest.parity if rung.stage == STAGE]
    assert "--no-emulate" in (bundle / "report.html").read_text()


@pytest.mark.long
@pytest.mark.usefixtures("own_runner")
def test_other_logits_end_the_export_each_time(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even an export whose stages are all cached passes; once the kernels are right, it does."""
    right = EmulatedRunner.feed

    def wrong(self: EmulatedRunner, tokens: Sequence[int], calls: Sequence[tuple[int, int, int]]) -> Floats:
        logits: Floats = np.roll(right(self, tokens, calls), 1, axis=-1)
        return logits

    for feed in (wrong, wrong, right):
        monkeypatch.setattr(EmulatedRunner, "feed", feed)
        if feed is right:
            assert rung_of(exported(tiny_folder, tmp_path / "x.edgec")).passed
            continue
        with pytest.raises(BudgetError, match=STAGE) as error:
            exported(tiny_folder, tmp_path / "x.edgec")
        assert error.value.code == "E201" and "do not ship" in error.value.fix and not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.usefixtures("own_runner")
def test_a_runner_that_fails_ends_the_export(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated, "qemu_line", lambda build, arguments, cpu: ["sh", "-c", "echo no page >&2; exit 9"])
    with pytest.raises(BudgetError) as error:
        exported(tiny_folder, tmp_path / "x.edgec")
    assert error.value.code == "E538" and error.value.exit_code == 2 and not list(tmp_path.iterdir())
    assert "exit status 9: no page" in error.value.why
    monkeypatch.setattr(emulated, "qemu_line", lambda build, arguments, cpu: ["sleep", "60"])
    monkeypatch.setattr(emulated, "_LIMIT_S", 0.2)
    with pytest.raises(BudgetError, match="did not execute") as error:
        exported(tiny_folder, tmp_path / "x.edgec")
    assert "did not end" in error.value.why


@pytest.mark.usefixtures("own_runner")
@pytest.mark.slow
@pytest.mark.skipif(not CAN_EMULATE, reason="no cross compiler or qemu")
@pytest.mark.parametrize("recipe", ["float", "4bit", "3bit", "balanced2"])
def test_neon_says_what_this_machine_says(recipe: str, tmp_path: Path) -> None:
    rung = rung_of(exported(EXAMPLE, tmp_path / "x.edgec", recipe))
    assert rung.passed and rung.positions == 67 and rung.max_abs is not None
