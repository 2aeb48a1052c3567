"""Modules that coremltools refuses as torch writes them, in both formats of Core ML, executed by the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.backends.forms import FORMS
from edgec.backends.static_artifact import backend_of
from edgec.exporter.capture.module import capture_module
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.stages.artifact import function_of
from edgec.exporter.stages.pass_orders import static_module_passes
from edgec.passes.contract import run_passes
from tests.passes.static.test_apple_operators import spread
from tests.passes.static.test_unroll_recurrences import Called


class Normalized(nn.Module):
    def __init__(self, order: float) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, p=self.order, dim=1)


class Recurrent(nn.Module):
    """Called with two states by name: capture names inputs after the parameters of ``forward``."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.called = Called(layer)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.called(x, h, c)


def _with_a_row_of_zeros(*shape: int) -> Tensor:
    x = torch.randn(*shape)
    x[:, :, 1] = 0.0
    return x


def _lstm() -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(0)
    layer = nn.LSTM(32, 16, num_layers=2, bidirectional=True, batch_first=True)
    return Recurrent(layer).eval(), [torch.randn(1, 3, 32), torch.randn(4, 1, 16), torch.randn(4, 1, 16)]


CASES: dict[str, tuple[nn.Module, list[Tensor]]] = {
    "lstm": _lstm(),
    "gru": (Called(nn.GRU(32, 16, batch_first=True)).eval(), [torch.randn(1, 3, 32)]),
    "rnn": (Called(nn.RNN(32, 16)).eval(), [torch.randn(3, 1, 32)]),
    "gru cell": (Called(nn.GRUCell(32, 16)).eval(), [torch.randn(1, 32)]),
    "instance norm": (spread(nn.InstanceNorm1d(8, affine=True)), [torch.randn(1, 8, 32)]),
    "slopes": (spread(nn.PReLU(8)), [torch.randn(1, 8)]),
    "normalize": (Normalized(2.0), [_with_a_row_of_zeros(1, 8, 32)]),
    "normalize by the largest": (Normalized(float("inf")), [_with_a_row_of_zeros(1, 8, 32)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mlpackage", "pte"])
def test_more_steps_take_no_more_weights(form: str, tmp_path: Path) -> None:
    """Scales and biases of fewer than 100 values were stored once a step, which the size ledger refused (E210)."""
    wanted_form, held = FORMS["coreml", form], set()
    torch.manual_seed(0)
    module = Called(nn.GRU(32, 16, batch_first=True)).eval()
    for steps in (2, 4):
        program = capture_module(module, [torch.randn(1, steps, 32)], "gru")
        done = run_passes(program, static_module_passes(for_backend(load_recipe("8bit"), "coreml"), wanted_form))
        path = tmp_path / f"{steps}-{wanted_form.artifact}"
        backend = backend_of(wanted_form.module)
        backend.lower({"main": done}, path, lambda step, count, total: None)
        held.add(sum(run.bytes for run in backend.layout(path).stored))
    assert len(held) == 1


@pytest.mark.sweep(5)
@pytest.mark.long
@pytest.mark.parametrize("form", ["mlpackage", "pte"])
@pytest.mark.parametrize("name", CASES)
def test_it_converts_and_is_executed(name: str, form: str, tmp_path: Path) -> None:
    (module, inputs), wanted_form = CASES[name], FORMS["coreml", form]
    program = capture_module(module, inputs, name)
    done = run_passes(program, static_module_passes(load_recipe("float"), wanted_form))
    path = tmp_path / wanted_form.artifact
    artifact = backend_of(wanted_form.module).lower({"main": done}, path, lambda step, count, total: None)
    assert artifact.delegation.delegated_share == 1.0
    wanted = torch.utils._pytree.tree_leaves(module(*inputs))
    for one, other in zip(function_of(path, wanted_form)(inputs), wanted, strict=True):
        # float16 in a few products one after the other, of values up to 3.
        torch.testing.assert_close(torch.as_tensor(one).float(), other, rtol=0, atol=5e-3)
