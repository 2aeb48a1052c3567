"""Means and norms of many values that lie away from 0, in float16 as Core ML adds: sums first, then divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.program import Program
from edgec.passes.contract import Pass, nodes_of, run_pass, run_passes
from edgec.passes.fuse.pool_to_mean import PoolToMean
from edgec.passes.static.fp16_safe_mean import Fp16SafeMean
from edgec.passes.static.fp16_safe_norm import Fp16SafeNorm
from edgec.passes.static.half_precision import HalfPrecision

aten = torch.ops.aten
PASSES: Sequence[Pass] = (PoolToMean(), Fp16SafeMean(), Fp16SafeNorm())


class Over(nn.Module):
    """A mean over some dimensions."""

    def __init__(self, dims: tuple[int, ...] | None, keep: bool = False) -> None:
        super().__init__()
        self.dims, self.keep = dims, keep

    def forward(self, x: Tensor) -> Tensor:
        return x.mean() if self.dims is None else x.mean(self.dims, self.keep)


class AddsInHalf(torch.fx.Interpreter):
    """Runs a float16 graph whose means add in float16 before they divide."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not aten.mean.dim:
            return super().call_function(target, args, kwargs)
        x, dims, *keep = args
        total = x.float().sum(dims, *keep).half()
        return (total.float() / torch.tensor([x.shape[dim] for dim in dims]).prod()).half()


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "pool": (nn.AdaptiveAvgPool2d(1), (1, 8, 160, 160)),
    "pool of a sequence": (nn.AdaptiveAvgPool1d(1), (1, 3, 1031)),
    "pool of a volume": (nn.AdaptiveAvgPool3d(1), (1, 2, 8, 16, 16)),
    "layer norm": (nn.LayerNorm(2048), (1, 4, 2048)),
    "layer norm of images": (nn.LayerNorm((8, 16, 16)), (2, 8, 16, 16)),
    "group norm": (nn.GroupNorm(4, 512), (1, 512, 128)),
    "group norm of images": (nn.GroupNorm(2, 64), (1, 64, 48, 48)),
    "prime": (Over((-1,), True), (1, 2, 4099)),
    "a large prime, doubled": (Over((2,)), (1, 2, 2 * 30011)),
    "all": (Over(None), (1, 2, 700)),
    "some": (Over((1, 3)), (2, 30, 3, 41)),
}


def rewritten(name: str) -> tuple[nn.Module, Program, Tensor]:
    module, shape = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape)
    return module.eval(), run_passes(capture_module(module, (x,)), list(PASSES)), x


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_stay_and_the_shape(name: str) -> None:
    module, program, x = rewritten(name)
    with torch.no_grad():
        wanted, got = module(x), program.graph(x)[0]
    # Means in another order, and norms by other scales.
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_each_pass_changes_nothing_more(name: str) -> None:
    module, shape = CASES[name]
    program = capture_module(module, (torch.zeros(shape),))
    for each in PASSES:
        program = run_pass(program, each)
        assert len(run_pass(program, each).graph.graph.nodes) == len(program.graph.graph.nodes)


@pytest.mark.parametrize("shift", [5, 20, 100])
@pytest.mark.parametrize("name", CASES)
def test_values_away_from_zero_have_means_in_float16(name: str, shift: float) -> None:
    module, program, x = rewritten(name)
    half = run_pass(program, HalfPrecision())
    x = (x + shift).half()
    got = AddsInHalf(half.graph).run(x)[0].float()
    with torch.no_grad():
        wanted = module(x.float())
    # The mean is rounded to 11 bits in each of a few steps, and norms leave that beside values of spread 1.
    assert bool(got.isfinite().all())
    torch.testing.assert_close(got, wanted, atol=max(0.02, 4 * shift * 2**-11), rtol=1e-2)


def test_the_old_form_was_infinite() -> None:
    module, shape = CASES["pool"]
    x = torch.randn(shape)
    before = run_pass(run_pass(capture_module(module, (x,)), PoolToMean()), HalfPrecision())
    assert bool(AddsInHalf(before.graph).run((x + 5).half())[0].isinf().all())


def test_short_means_are_left_alone() -> None:
    program = capture_module(Over((2, 3)), (torch.randn(1, 3, 16, 16),))
    (mean,) = nodes_of(run_pass(program, Fp16SafeMean()).graph, aten.mean.dim)
    assert list(mean.args[1]) == [2, 3]  # type: ignore[arg-type]
