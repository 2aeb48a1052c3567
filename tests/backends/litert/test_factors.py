"""Products that a converter would multiply into matrices: written otherwise, the same numbers."""

from __future__ import annotations

import torch
from torch import nn

from edgec.backends.litert.factors import keep_factors_apart
from edgec.ir.attributes import attribute
from edgec.passes.contract import nodes_of

aten = torch.ops.aten


class _Capped(nn.Module):
    """A norm of one value before a layer, and a soft cap after it; nothing of a layer is capped a second time."""

    norm: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 4, bias=False)
        self.register_buffer("norm", torch.full((8,), 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = self.layer(x * self.norm)
        return torch.tanh(made.reshape(1, -1) / 30.0) * 30.0, x * 3.0


def test_the_numbers_stay_and_no_factor_is_a_layers_alone() -> None:
    model, x = _Capped().eval(), torch.randn(2, 8)
    graph = torch.export.export(model, (x,)).module()
    wanted = graph(x)
    keep_factors_apart(graph)
    for made, before in zip(graph(x), wanted, strict=True):
        assert torch.allclose(made, before, rtol=1e-6, atol=1e-7)
    (layer,) = nodes_of(graph, aten.linear.default)
    (view,) = layer.users
    assert len(view.users) == 2, "each of the two parts reads the layer"
    norm = attribute(graph, "norm_uneven")
    assert int(torch.count_nonzero(norm - norm[0])) == 1 and torch.allclose(norm, torch.full((8,), 2.0))
    # The factor after tanh and the one of an input stay as they were.
    assert len(nodes_of(graph, aten.mul.Tensor)) == 3 and not nodes_of(graph, aten.div.Tensor)
