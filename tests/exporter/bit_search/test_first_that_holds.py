"""A default of a non-decoder model gives way to one with more bits; a named recipe is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec import export
from edgec.bundle.folder import read_manifest
from edgec.errors import BudgetError
from edgec.exporter.report.summary import summary_json

CANCELLING = "tests.exporter.bit_search.test_first_that_holds:cancelling"


class Cancelling(nn.Module):
    """A small difference of two large products, which 8 bits of weights and activations lose."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        with torch.no_grad():
            self.other.weight.copy_(self.one.weight * (1 + 0.003 * torch.rand_like(self.one.weight)))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.one(x) - self.other(x)
        return result


def cancelling() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, and a batch of rows."""
    torch.manual_seed(0)
    return Cancelling().eval(), (torch.randn(1, 8, 64),)


@pytest.mark.slow
@pytest.mark.long
def test_a_default_that_misses_its_budget_gives_way_to_float(tmp_path: Path) -> None:
    made = read_manifest(export(CANCELLING, out=tmp_path / "x.edgec"))
    assert made.recipe_name == "float"
    (tried,) = made.tried_recipes
    assert tried.recipe == "8bit" and "max_relative" in tried.missed and "(budget 0.1)" in tried.missed
    assert summary_json(made)["more_bits"] == made.bits_line
    assert made.bits_line.startswith("8bit misses its budget") and made.bits_line.endswith(": float instead")
    assert "8bit misses its budget" in (tmp_path / "x.edgec" / "report.html").read_text()


@pytest.mark.long
def test_a_named_recipe_is_refused_with_the_budget_that_decides(tmp_path: Path) -> None:
    with pytest.raises(BudgetError) as refused:
        export(CANCELLING, recipe="8bit", out=tmp_path / "x.edgec")
    assert refused.value.code == "E201" and "--recipe float" in refused.value.fix
    assert "--budget max_relative=LIMIT" in refused.value.fix and "kl_mean" not in refused.value.fix
    assert not (tmp_path / "x.edgec").exists()


@pytest.mark.long
def test_a_healthy_module_pays_nothing(tmp_path: Path) -> None:
    made = read_manifest(export("tests.exporter.module_factories:vit", out=tmp_path / "x.edgec"))
    assert made.recipe_name == "8bit" and made.tried_recipes == [] and made.bits_line == ""
