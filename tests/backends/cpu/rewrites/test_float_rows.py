"""Float convolutions over rows between integers: the program loads, and computes what its graph says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edgec
from edgec import export
from edgec.bundle.folder import read_manifest
from edgec.exporter.recipes.recipe import Recipe
from edgec.ir.weight_scheme import WeightScheme

HERE = "tests.backends.cpu.rewrites.test_float_rows"
OPEN = {"max_relative": 1.0, "channel_relative": 5.0}


class Rows(nn.Module):
    """Three convolutions over rows, each before a relu."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 8, 3, padding=1)
        self.second = nn.Conv1d(8, 8, 3, padding="same", dilation=2)
        self.third = nn.Conv1d(8, 8, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.third(self.second(self.first(x).relu()).relu()).relu()
        return result


def rows() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module and 16 values of four channels."""
    torch.manual_seed(0)
    return Rows().eval(), (torch.randn(1, 4, 16),)


CASES = [
    ("first", "host"),
    *(
        pytest.param(name, target, marks=pytest.mark.long)
        for name in ("first", "second", "third")
        for target in ("host", "android-cpu")
        if (name, target) != ("first", "host")
    ),
]


@pytest.mark.long
@pytest.mark.sweep(1)
@pytest.mark.parametrize(("name", "target"), CASES)
def test_one_float_convolution_among_integers_is_executed(name: str, target: str, tmp_path: Path) -> None:
    recipe = Recipe("mixed", weights=WeightScheme(8, 0), rules=((f"{name}.weight", None),), budgets=OPEN)
    out = export(f"{HERE}:rows", target=target, recipe=recipe, out=tmp_path / "x.edgec")
    module, (x,) = rows()
    with torch.no_grad():
        wanted = module(x)
    (got,) = edgec.load(out).run(x=x.numpy()).values()
    # Two convolutions of 8-bit weights and inputs.
    assert float((torch.as_tensor(got) - wanted).abs().max()) < 0.05 * float(wanted.abs().max())
    artifact = next(rung for rung in read_manifest(out).parity if rung.stage == "artifact")
    assert artifact.passed
