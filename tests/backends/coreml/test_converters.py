"""Operators that coremltools must not misread, executed by the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from edgec.backends.coreml.converters import register
from edgec.backends.coreml.interpreter import load_package


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
