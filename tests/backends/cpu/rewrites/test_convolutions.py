"""Convolutions in XNNPACK's delegates, beside edgec's linear kernels and with standard ones, in float and 8 bits."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.lower import Lowered, lower
from edgec.backends.cpu.static_lowering import StaticLowered, lower_static
from edgec.bundle.pte_layout import read_layout
from edgec.exporter.capture.module import capture_module
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend, with_standard_kernels
from edgec.exporter.stages.module_orders import module_passes
from edgec.ir.program import Program
from edgec.passes.contract import run_passes
from edgec.passes.graph.calibration import Calibration
from edgec.runtime_py.engines.open_artifact import TorchMethod
from tests.convolving import MAKERS, Pitch, made

ROWS = BlockRows.of(platform.machine())


@dataclass(frozen=True)
class Executed:
    program: Program
    lowered: Lowered | StaticLowered
    outputs: list[Tensor]
    artifact: Path


def executed(module: nn.Module, calls: Sequence[tuple[Tensor]], recipe: str, own: bool, folder: Path) -> Executed:
    asked = for_backend(load_recipe(recipe), "xnnpack")
    asked = asked if own else with_standard_kernels(asked)
    program = run_passes(
        capture_module(module, calls[0]), module_passes(asked, calibration=Calibration(calls=[*calls]))
    )
    lowered = lower(program, block_rows=ROWS) if own else lower_static(program)
    (artifact := folder / "model.pte").write_bytes(lowered.artifact)
    method = TorchMethod(artifact)
    return Executed(program, lowered, [method(call)[0] for call in calls], artifact)


# Every net in 8 bits with standard kernels; others lower the same delegates beside edgec's.
FLOAT, BESIDE = ("conv", "sound", "transposed", "pitch"), ("conv", "sound", "residual", "pitch")
CASES = [
    *((name, "8bit", False) for name in MAKERS),
    *((name, "8bit", True) for name in BESIDE),
    *((name, "float", own) for name in FLOAT for own in (True, False)),
]


@pytest.mark.sweep(3)
@pytest.mark.long
@pytest.mark.parametrize(("name", "recipe", "own"), CASES)
def test_the_artifact_computes_its_graph(name: str, recipe: str, own: bool, tmp_path: Path) -> None:
    module, calls = made(name)
    done = executed(module, calls, recipe, own, tmp_path)
    for call, got in zip(calls, done.outputs, strict=True):
        with torch.no_grad():
            wanted = done.program.graph(*call)[0]
        # Float sums in another order; integers that lie on the border of two steps fall to either side, here and there.
        allowed = 1e-5 if recipe == "float" else 0.03
        assert float((got - wanted).abs().max()) <= allowed * float(wanted.abs().max())


@pytest.mark.long
@pytest.mark.parametrize("recipe", ["float", "8bit"])
def test_convolutions_are_delegated_beside_edgecs_kernels(recipe: str, tmp_path: Path) -> None:
    module, calls = made("pitch")
    done = executed(module, calls, recipe, True, tmp_path)
    assert isinstance(done.lowered, Lowered)
    inside = done.lowered.delegation
    assert inside.backend == "edgec_linear, xnnpack" if recipe == "8bit" else inside.backend == "xnnpack"
    # All products are inside; outside are the padding's and the pooling's neighbours at most.
    assert inside.delegated_share > 0.95
    assert not any("conv" in name or "norm" in name or "pool" in name for name in done.lowered.operators)


@pytest.mark.long
def test_products_are_counted_for_each_layer(tmp_path: Path) -> None:
    module, calls = made("pitch")
    done = executed(module, calls, "float", False, tmp_path)
    assert isinstance(done.lowered, StaticLowered)
    # 32 results of 16 channels, 16 values each; 16 of 8 channels, 8 x 16 each; norms in XNNPACK's way; 12 rows of 64.
    assert done.lowered.delegated_macs >= 32 * 16 * 16 + 16 * 8 * 8 * 16 + 12 * 64


@pytest.mark.slow
def test_weights_are_stored_in_a_byte(tmp_path: Path) -> None:
    module, calls = made("pitch")
    assert isinstance(module, Pitch)
    done = executed(module, calls, "8bit", True, tmp_path)
    stored = {(run.dtype, run.bytes) for run in read_layout(done.artifact).stored}
    assert module.second.weight.numel() == 1024 and any(size == 1024 for _, size in stored)
    assert not any(size == 4096 for _, size in stored)


@pytest.mark.long
def test_a_net_without_convolutions_has_no_further_delegate(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, calls = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval(), [(torch.randn(1, 8),)]
    done = executed(module, calls, "float", True, tmp_path)
    assert isinstance(done.lowered, Lowered)
    assert done.lowered.delegation.delegates == 1
