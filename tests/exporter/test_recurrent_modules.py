"""LSTM and GRU layers of modules call edgec's kernels here, and on phones where these are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgec
from edgec import export
from edgec.bundle.folder import read_manifest

HERE = "tests.exporter.test_recurrent_modules"


class Reader(nn.Module):
    """A stacked LSTM in both directions, and a GRU whose state is an input and an output."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.LSTM(12, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.gated, self.head = nn.GRU(32, 24, batch_first=True), nn.Linear(24, 5)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        seen, after = self.gated(self.both(x)[0], state)
        return self.head(seen), after


def reader() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module, ten rows and a state."""
    torch.manual_seed(0)
    return Reader().eval(), (torch.randn(1, 10, 12), torch.randn(1, 1, 24))


CASES = [
    ("host", "float"),
    pytest.param("host", "8bit", marks=pytest.mark.long),
    pytest.param("android-cpu", "float", marks=pytest.mark.long),
    pytest.param("android-cpu", "8bit", marks=pytest.mark.long),
]


@pytest.mark.long
@pytest.mark.sweep(2)
@pytest.mark.parametrize(("target", "recipe"), CASES)
def test_the_bundle_computes_what_the_module_does(target: str, recipe: str, tmp_path: Path) -> None:
    out = export(f"{HERE}:reader", target=target, recipe=recipe, kernels="edgec", out=tmp_path / "x.edgec")
    manifest, (module, inputs) = read_manifest(out), reader()
    named = {name.removesuffix(".out") for name in manifest.runtime.operators}
    assert {"edgec::lstm", "edgec::gru"} <= named
    with torch.no_grad():
        wanted = module(*inputs)
    got = edgec.load(out).run(x=inputs[0].numpy(), state=inputs[1].numpy())
    # Sums in another order; in 8 bits weights have 127 steps, and states carry their errors along.
    allowed = 1e-5 if recipe == "float" else 0.03
    for own, value in zip(wanted, got.values(), strict=True):
        assert float((own - torch.as_tensor(value)).abs().max()) <= allowed * float(own.abs().max())
    assert manifest.delegation is not None
    outside = {each.operator.rpartition("::")[2]: each.share for each in manifest.delegation.fallbacks}
    # 10 x (4 x 64 x 16 + 72 x 24) of 46,480 products of all matrices.
    products = 10 * (4 * 64 * 16 + 72 * 24 + 2 * 64 * 12 + 2 * 64 * 32 + 72 * 32 + 5 * 24)
    assert outside["lstm"] == pytest.approx(10 * 4 * 64 * 16 / products, rel=0.05)
    assert outside["gru"] == pytest.approx(10 * 72 * 24 / products, rel=0.05)


@pytest.mark.long
def test_recurrent_matrices_are_stored_in_a_byte_and_fewer_bits_are_told(tmp_path: Path) -> None:
    budgets = {"max_relative": 1.0, "channel_relative": 4.0}
    manifest = read_manifest(export(f"{HERE}:reader", recipe="4bit", budgets=budgets, out=tmp_path / "x.edgec"))
    assert "5 recurrent matrices in 8 bits" in manifest.wider_layers
    assert manifest.ledger is not None
    stored = {row.name: row.bytes for row in manifest.ledger.rows}
    assert stored["gated.weight_hh_l0_int"] == 72 * 24 and stored["both.weight_hh_l1_reverse_int"] == 64 * 16


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("target", ["host", "android-cpu"])
def test_standard_kernels_are_those_of_every_app(target: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": target, "recipe": "float", "kernels": "standard"}
    manifest = read_manifest(export(f"{HERE}:reader", out=tmp_path / "x.edgec", **options))
    assert not any(name.startswith("edgec::") for name in manifest.runtime.operators)
