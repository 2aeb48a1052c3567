"""Every chip of the table is compiled for and emulated; a model above the limit becomes several contexts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import edgec
from edgec.backends.qnn.context import execute, execute_on_cpu, layout, lower_for
from edgec.backends.static_artifact import Chip
from edgec.bundle.folder import open_bundle
from edgec.devices.targets import load_target
from edgec.exporter.parity.metrics import difference
from edgec.exporter.stages import static_lowering
from edgec.ir.static_methods import run_static
from edgec.passes.static.parts.cut_model import stored_sizes
from tests.backends.qnn.test_context import CHANNEL, RANDOM, programs
from tests.passes.static_methods import PLAN, run, tokens

CHIPS = ("snapdragon-8-gen-2", "snapdragon-8-gen-3", "snapdragon-8-elite", "snapdragon-8-elite-gen-5")

pytestmark = pytest.mark.slow
pytest.importorskip("onnxruntime_qnn")


def compiled(folder: Path, chip: Chip) -> Path:
    path = folder / "model.qnn"
    lower_for(programs("llama", CHANNEL), path, lambda name, done, total: None, chip)
    return path


def agree_in_the_emulation(path: Path) -> None:
    """16-bit sums in the compiler's own order against ONNX Runtime's fixed point; that against the graphs."""
    wanted, fixed = run(programs("llama", CHANNEL)), run_static(execute_on_cpu(path), tokens(), PLAN)
    emulated = run_static(execute(path), tokens(), PLAN)
    assert float((emulated - fixed).abs().max()) <= 0.02 * float(wanted.abs().max())
    # Keys and values have 8 bits: measured KL 0.0032 nats, every top-1 the same, on each of the four chips.
    gap = difference(wanted, emulated, epsilon=0.25)
    assert gap.kl_mean <= 0.02 and gap.top1_agreement == 1.0


@pytest.mark.parametrize("name", CHIPS)
def test_each_chip_gets_contexts_that_say_what_fixed_point_says(name: str, tmp_path: Path) -> None:
    soc = load_target(name).soc_model
    assert soc is not None
    path = compiled(tmp_path, Chip(soc, tuple(tokens())))
    assert (path / "soc_model.txt").read_text().split() == [str(soc)]
    assert len(list(path.glob("part_0/*.bin"))) >= 2  # the host's weights and the context
    agree_in_the_emulation(path)


def test_a_model_above_the_limit_is_several_contexts(tmp_path: Path) -> None:
    sizes = stored_sizes(programs("llama", CHANNEL)["decode"])
    path = compiled(tmp_path, Chip(69, tuple(tokens()), context_bytes=sum(sizes.values()) * 7 // 10))
    parts = sorted(folder.name for folder in path.glob("part_*"))
    assert len(parts) >= 2
    assert all(list((path / part).glob("*qnn*.bin")) for part in parts)
    assert layout(path).artifact_bytes == sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    agree_in_the_emulation(path)


def test_an_export_above_the_limit_passes_its_ladder(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way with a limit of 40 kB, and two chips one after the other: neither is given the other's context."""
    monkeypatch.setattr(static_lowering, "Chip", partial(Chip, context_bytes=40_000))
    for name in ("snapdragon-8-elite", "snapdragon-8-gen-3"):
        out = tmp_path / f"{name}.edgec"
        edgec.export(tiny_folder, target=name, recipe="8bit", context=96, budgets=RANDOM, out=out)
        manifest = open_bundle(out).manifest
        assert manifest.parity[-2].stage == "artifact" and manifest.parity[-2].passed
        parts = {file.path.split("/")[1] for file in manifest.files if "/part_" in file.path}
        assert len(parts) >= 2
        assert int((out / "model.qnn/soc_model.txt").read_text()) == load_target(name).soc_model
