"""Modules of TorchScript are converted where torch can, and compute the same; a typed error says what to do else."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.sources.modules.factory import state_digest
from edgec.exporter.sources.modules.scripted import script_inputs, without_scripts

X = torch.linspace(-1, 1, 3 * 64).reshape(1, 3, 8, 8)
# The same kernels in the same order; batch norm may be joined with a convolution in a frozen script.
TOLERANCE = 1e-6


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4)
        self.up, self.last = nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2), nn.Linear(4, 2)
        self.scale = 3

    def forward(self, x: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        y = self.up(self.norm(self.first(x))) * self.scale
        if mask is not None:
            y = y * mask
        return {"scores": self.last(y.mean(-1).mean(-1)).softmax(-1)}


class _Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            x = x * 2
        return x


class _Keeps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.h = torch.zeros(1, 3, 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        self.h = self.h + x
        return self.h


class _Times(nn.Module):
    """The same tensors whatever it multiplies by."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


class _Holder(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.before, self.inner = nn.Conv2d(3, 3, 1), inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(self.before(x))


def _net() -> _Net:
    torch.manual_seed(0)
    return _Net().eval()


def _loaded(module: nn.Module) -> Any:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(module), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


@torch.no_grad()
@pytest.mark.parametrize(
    "script",
    [
        lambda: torch.jit.script(_net()),
        lambda: torch.jit.trace(_net(), X, strict=False),
        lambda: torch.jit.freeze(torch.jit.script(_net())),
        lambda: _loaded(_net()),
    ],
)
def test_a_script_is_captured_with_its_names_and_numbers(script: Any) -> None:
    module = without_scripts(script(), (X,), "my:make")
    assert script_inputs(module, 1) == ("x",)
    program = capture_module(module, (X,), input_names=script_inputs(module, 1))
    assert [tensor.name for tensor in (*program.interface.inputs, *program.interface.outputs)] == ["x", "scores"]
    for x in (X, X.flip(-1) * 3):
        torch.testing.assert_close(program.graph(x)[0], _net()(x)["scores"], atol=TOLERANCE, rtol=0)
    targets = {str(node.target) for node in program.graph.graph.nodes}
    assert "aten._convolution.default" not in targets and "aten.conv2d.default" in targets


@torch.no_grad()
def test_weights_keep_their_names_and_memory_also_in_another_module() -> None:
    script = _loaded(_net())
    module = without_scripts(_Holder(script), (X,), "my:make")
    parameters = dict(module.named_parameters())
    assert parameters["inner.last.weight"].data_ptr() == script.last.weight.data_ptr()
    torch.testing.assert_close(capture_module(module, (X,)).graph(X)[0], module(X)["scores"], atol=TOLERANCE, rtol=0)


def test_a_branch_on_values_is_refused_as_in_any_module() -> None:
    with pytest.raises(InputError, match="traced") as caught:
        capture_module(without_scripts(torch.jit.script(_Branches()), (X,), "my:make"), (X,))
    assert caught.value.code == "E109"


def test_a_script_that_keeps_state_is_refused_with_the_way_to_the_module() -> None:
    with pytest.raises(InputError, match="cannot be converted") as caught:
        without_scripts(_loaded(_Keeps()), (X,), "my:make")
    assert caught.value.code == "E791" and "load_state_dict" in caught.value.fix


def test_the_code_of_a_script_is_part_of_its_digest() -> None:
    """A script's code lies in its file: two with equal weights must not share a stage of the cache."""
    twice, thrice = _loaded(_Times(2)), _loaded(_Times(3))
    assert state_digest(twice, (X,)) != state_digest(thrice, (X,))
    assert state_digest(twice, (X,)) == state_digest(_loaded(_Times(2)), (X,))
