"""A default leaves the convolutions in float that cost most in 8 bits, and says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgec import export
from edgec.bundle.folder import read_manifest
from edgec.errors import BudgetError
from edgec.exporter.bit_search import float_convolutions
from edgec.exporter.bit_search.float_convolutions import _Search
from edgec.exporter.options import ExportOptions
from edgec.exporter.parity.ladder import Stage
from edgec.exporter.resolve.resolved import resolve_options
from edgec.exporter.stages.rewriting import Measure
from tests.convolving import made

HERE = "tests.exporter.bit_search.test_float_convolutions"


class Cancelling(nn.Module):
    """A small difference of two convolutions, which 8 bits lose, between two that they keep."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)
        self.one, self.other = nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 8, 1, bias=False)
        with torch.no_grad():
            self.other.weight.copy_(self.one.weight * (1 + 0.003 * torch.rand_like(self.one.weight)))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.first(x))
        result: Tensor = self.last(100 * (self.one(x) - self.other(x)))
        return result


def cancelling() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, and an image."""
    torch.manual_seed(0)
    return Cancelling().eval(), (torch.randn(1, 3, 10, 10),)


def pitch() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A net that 8 bits keep, and a frame of sound."""
    module, (inputs, *_) = made("pitch")
    return module, inputs


@pytest.mark.slow
@pytest.mark.long
def test_the_costliest_stay_in_float(tmp_path: Path) -> None:
    manifest = read_manifest(export(f"{HERE}:cancelling", out=tmp_path / "x.edgec"))
    assert manifest.recipe_name == "8bit, 2 of 4 convolutions in float"
    (tried,) = manifest.tried_recipes
    assert tried.recipe == "8bit" and "max_relative" in tried.missed
    assert manifest.bits_line.endswith(": 8bit, 2 of 4 convolutions in float instead")
    kept = [rule["parameters"] for rule in manifest.recipe["rules"] if rule.get("float")]
    assert sorted(kept[:2]) == ["one.weight", "other.weight"]
    assert "quantize_convolutions" in {change.name for change in manifest.passes}


@pytest.mark.long
def test_neighbours_of_a_deep_network_are_weighed_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(float_convolutions, "_MOST", 2)
    options = ExportOptions(f"{HERE}:cancelling", out=tmp_path / "x.edgec")
    search = _Search.of(resolve_options(options).request)
    assert search is not None and len(search.names) == 4
    runs: list[int] = []

    def share(measure: Measure, before: Stage, kept: Sequence[str]) -> float:
        """The second pair costs all."""
        runs.append(len(kept))
        return 0.0 if set(search.names[2:]) <= set(kept) else 9.0

    monkeypatch.setattr(_Search, "_share", lambda _, *given: share(*given))
    assert search.enough()[0] == search.names[2:]
    # All, two pairs, and one, then two layers in float.
    assert runs == [0, 2, 2, 1, 2]


@pytest.mark.long
def test_a_named_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError) as refused:
        export(f"{HERE}:cancelling", recipe="8bit", out=tmp_path / "x.edgec")
    assert refused.value.code == "E201" and "quantize_convolutions" in refused.value.what


@pytest.mark.slow
@pytest.mark.parametrize("target", ["host", pytest.param("android-cpu", marks=pytest.mark.long)])
def test_a_net_that_8_bits_keep_has_them(target: str, tmp_path: Path) -> None:
    manifest = read_manifest(export(f"{HERE}:pitch", target=target, out=tmp_path / "x.edgec"))
    assert manifest.recipe_name == "8bit" and manifest.bits_line == "" and manifest.wider_layers == ""
    assert manifest.ledger is not None
    stored = {row.name: (row.bytes, row.copies) for row in manifest.ledger.rows}
    assert stored["second.weight_int"] == (1024, 1)
    assert manifest.delegation is not None and manifest.delegation.delegated_share > 0.95


@pytest.mark.slow
@pytest.mark.long
def test_more_bits_than_asked_for_are_told(tmp_path: Path) -> None:
    manifest = read_manifest(export(f"{HERE}:pitch", recipe="4bit", out=tmp_path / "x.edgec"))
    # Two convolutions, and two norms that are convolutions of one value.
    assert manifest.wider_layers.startswith("4 convolutions in 8 bits, ")
    assert "bytes (XNNPACK's convolutions read 8 bits" in manifest.wider_layers
    assert manifest.wider_layers in (tmp_path / "x.edgec" / "report.html").read_text().replace("&#x27;", "'")
