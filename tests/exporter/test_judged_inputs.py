"""Exports are judged on the user's inputs where there are some, and say on which; faults on them alone are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from edgec import export, load
from edgec.bundle.folder import read_manifest
from edgec.errors import BudgetError, InputError
from edgec.exporter.report.summary import summary_json

WEIGHED = "tests.exporter.test_judged_inputs:weighed"
ROOT = "tests.exporter.test_judged_inputs:root"


class Weighed(nn.Module):
    """A layer that ignores one of its inputs, which is silent in the example and huge in what the app passes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)
        with torch.no_grad():
            self.linear.weight[:, 0] = 0

    def forward(self, x: Tensor) -> Tensor:
        loud = torch.cat([1000 * (x[..., :1].clamp(min=20) - 20), x[..., 1:]], -1)
        result: Tensor = self.linear(loud)
        return result


def weighed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, and four rows."""
    torch.manual_seed(0)
    return Weighed().eval(), (torch.randn(1, 4, 32),)


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sqrt() * 2


def root() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A square root, and positive values."""
    return Root(), (torch.linspace(1, 2, 16)[None],)


def rows(folder: Path, count: int = 20, shift: float = 0.0) -> Path:
    drawn = np.random.default_rng(0).normal(size=(count, 4, 32)).astype("float32")
    drawn[..., 0] += shift
    np.savez(folder / "rows.npz", x=drawn)
    return folder / "rows.npz"


@pytest.mark.slow
@pytest.mark.long
def test_the_ladder_says_which_inputs_were_used(tmp_path: Path) -> None:
    made = read_manifest(export(WEIGHED, recipe="float", out=tmp_path / "made.edgec"))
    assert made.judged_on.startswith("judged on 16 made inputs") and "--inputs" in made.judged_on
    assert summary_json(made)["judged_on"] == made.judged_on
    own = read_manifest(export(WEIGHED, recipe="float", inputs=rows(tmp_path), out=tmp_path / "own.edgec"))
    assert own.judged_on == "judged on 20 given inputs (rows.npz)"
    assert "20 given inputs" in (tmp_path / "own.edgec" / "report.html").read_text()
    assert any("of 20, which differs most" in rung.note for rung in own.parity)


@pytest.mark.long
def test_a_fault_that_only_real_inputs_show_is_refused(tmp_path: Path) -> None:
    """Activations in 8 bits, scaled by the loud one of 32, are nothing for the others."""
    export(WEIGHED, recipe="8bit", out=tmp_path / "made.edgec")
    with pytest.raises(BudgetError) as refused:
        export(WEIGHED, recipe="8bit", inputs=rows(tmp_path, shift=21), out=tmp_path / "x.edgec")
    assert refused.value.code == "E201" and not (tmp_path / "x.edgec").exists()


@pytest.mark.long
def test_inputs_that_the_module_itself_does_not_take_are_the_users_fault(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).normal(size=(4, 16)).astype("float32")
    np.save(tmp_path / "x.npy", drawn)
    with pytest.raises(InputError, match="gives NaN for example 1") as refused:
        export(ROOT, recipe="float", inputs=tmp_path / "x.npy", out=tmp_path / "x.edgec")
    assert refused.value.code == "E836"


def test_language_models_are_judged_on_texts(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        export("examples/tiny-stories", inputs=rows(tmp_path), out=tmp_path / "x.edgec")
    assert refused.value.code == "E839" and "--text" in refused.value.fix


def normed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A group norm over 4,096 values, and noise around 0."""
    return nn.GroupNorm(2, 8), (torch.randn(1, 8, 1024, generator=torch.Generator().manual_seed(0)),)


@pytest.mark.long
def test_float16_gives_numbers_away_from_zero(tmp_path: Path) -> None:
    """Sums of 4,096 values around 100 are beyond float16; the artifact takes means of means."""
    module, (x,) = normed()
    path = export("tests.exporter.test_judged_inputs:normed", target="iphone", out=tmp_path / "x.edgec")
    made = read_manifest(path)
    assert made.recipe_name == "float" and "mean and spread of the example" in made.judged_on
    shifted = x + 100
    (got,) = load(path).run(input=shifted.numpy()).values()
    # Inputs of float16 around 100 are 1/16 apart.
    torch.testing.assert_close(torch.as_tensor(got).float(), module(shifted).detach(), atol=0.1, rtol=0)
