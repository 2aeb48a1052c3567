"""Layers whose integers have their columns in another order read inputs in that order; the model computes the same."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.kernel_grids import STORED_KERNELS
from edgec.ir.stored_forms import GPTQ, PackedForm
from edgec.passes.compress.column_order import INDEX_SELECT
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.rounding.stored_integers import StoredForm, StoredIntegers, record_stored
from edgec.passes.compress.rounding.weight_grid import QuantizedWeight, quantize_weight
from edgec.passes.contract import nodes_of, run_pass

ROWS, WIDTH = 16, 128
FORM = PackedForm.of(GPTQ, 4, True).in_act_order
X = torch.linspace(-1.0, 2.0, 2 * WIDTH).view(1, 2, WIDTH)


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.same, self.other = (nn.Linear(WIDTH, ROWS, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.one(x) + self.same(x) * self.other(x)
        return result


def _orders() -> dict[str, Tensor]:
    dice = torch.Generator().manual_seed(3)
    one, other = (torch.randperm(WIDTH, generator=dice) for _ in range(2))
    return {"one.weight": one, "same.weight": one.clone(), "other.weight": other}


def _stored(model: nn.Module, orders: dict[str, Tensor]) -> StoredIntegers:
    """The model's matrices on a grid of four bits, with columns in another order; the model gets their values."""
    grids: dict[str, QuantizedWeight] = {}
    for name, weight in model.named_parameters():
        grids[name] = quantize_weight(weight[:, orders[name]], FORM.scheme(32), "rtn")
        weight.data[:, orders[name]] = grids[name].dequantize()
    forms = {name: StoredForm(name, FORM.name, 0, 4.5, FORM.scheme(32)) for name in grids}
    return StoredIntegers(forms, grids.__getitem__, model.get_parameter, orders.get)


def test_inputs_are_selected_once_for_each_order_and_nothing_else_changes() -> None:
    torch.manual_seed(0)
    model = _Layers().eval().requires_grad_(False)
    stored = _stored(model, _orders())
    program = capture_module(model, (X,))
    record_stored(program.graph, stored)
    after = run_pass(program, Quantize(default=None, kernels=STORED_KERNELS, keeps=True))
    assert len(nodes_of(after.graph, INDEX_SELECT)) == 2
    with torch.no_grad():
        wanted, got = model(X), after.graph(X)
    got = got[0] if isinstance(got, tuple | list) else got
    # Inputs are rounded to 8 bits in groups of 32 values.
    torch.testing.assert_close(got, wanted, atol=0.05, rtol=0.02)
    turned = run_pass(program, Quantize(default=None, kernels=STORED_KERNELS, keeps=True))
    for node in nodes_of(turned.graph, INDEX_SELECT):
        node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
    turned.graph.recompile()
    with torch.no_grad():
        wrong = turned.graph(X)
    wrong = wrong[0] if isinstance(wrong, tuple | list) else wrong
    assert float((wrong - wanted).abs().max()) > 10 * float((got - wanted).abs().max()), "the order matters"
