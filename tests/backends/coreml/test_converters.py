"""Operators that coremltools must not misread, executed by the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from edgec.backends.coreml.converters import register
from edgec.backends.coreml.interpreter import load_package
from edgec.backends.coreml.package import decompositions


@pytest.mark.long
@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_gelu_keeps_its_approximation(approximate: str, tmp_path: Path) -> None:
    import coremltools as ct

    register()
    module: Any = torch.nn.GELU(approximate).eval()
    x = torch.linspace(-4, 4, 64).reshape(1, 64)
    exported = torch.export.export(module, (x,)).run_decompositions({})
    precision, target = ct.precision.FLOAT32, ct.target.iOS18
    model = ct.convert(exported, minimum_deployment_target=target, compute_precision=precision, skip_model_load=True)
    model.save(str(tmp_path / "gelu.mlpackage"))
    function = load_package(tmp_path / "gelu.mlpackage", accumulate="float32").functions["main"]
    (actual,) = function.run({function.inputs[0].name: x}, {}).values()
    # The two forms differ by up to 5e-4; one of them agrees to float32's last digits.
    assert float((actual - module(x)).abs().max()) < 1e-6


class _Scored(torch.nn.Module):
    """Half of what SAM adds to its scores: a scaled query, and rows of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.randn(5, 8).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bhc,kc->bhk", x * 0.5, self.rows)


class _Gated(torch.nn.Module):
    """The gates of RG-LRU: a matrix and a bias for each head."""

    matrix: torch.Tensor
    bias: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.randn(3, 8, 8).half())
        self.register_buffer("bias", torch.randn(3, 1, 8).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(self.bias, (x * 0.5).transpose(0, 1), self.matrix, beta=0.5, alpha=2.0)


class _Masked(torch.nn.Module):
    """Scores of each head, scaled and masked: a product and a sum for each channel."""

    scale: torch.Tensor
    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.rand(1, 3, 1, 1).half())
        self.register_buffer("mask", torch.randn(1, 3, 1, 1).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.unsqueeze(-1) * self.scale + self.mask).squeeze(-1)


@pytest.mark.long
@pytest.mark.parametrize("made", [_Scored, _Gated, _Masked])
def test_products_take_a_value_that_a_number_made_wider(made: type[torch.nn.Module], tmp_path: Path) -> None:
    import coremltools as ct
    import numpy as np

    register()
    module, x = made().eval(), torch.randn(1, 3, 8).half()
    exported = torch.export.export(module, (x,)).run_decompositions(decompositions())
    model = ct.convert(
        exported,
        minimum_deployment_target=ct.target.iOS18,
        inputs=[ct.TensorType(name="x", shape=x.shape, dtype=np.float16)],
        skip_model_load=True,
    )
    model.save(str(tmp_path / "products.mlpackage"))
    function = load_package(tmp_path / "products.mlpackage", accumulate="float32").functions["main"]
    (actual,) = function.run({"x": x}, {}).values()
    wanted = module.float()(x.float())
    # Sums of 8 products in float16: a unit in the last place of values up to 8.
    assert float((actual.float() - wanted).abs().max()) < 1e-2
