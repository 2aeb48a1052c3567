"""The report on delegates of any backend: arithmetic is counted, not operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import Tensor, nn

from edgec.backends.delegated_pte import delegated_operators


class Layers(nn.Module):
    """A convolution, a ReLU, a matrix product and running sums; no delegate takes the last."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.linear = nn.Conv2d(4, 8, 3), nn.Linear(14, 6)

    def forward(self, x: Tensor) -> Tensor:
        products: Tensor = self.linear(torch.relu(self.convolution(x)))
        return products.cumsum(-1).cumsum(-1)


def lowered(*methods: str) -> Any:
    exported = torch.export.export(Layers().eval(), (torch.randn(1, 4, 16, 16),))
    return to_edge_transform_and_lower(
        dict.fromkeys(methods, exported), partitioner={name: [XnnpackPartitioner()] for name in methods}
    )


@pytest.mark.long
def test_products_count_and_not_operators() -> None:
    delegation, operators = delegated_operators(lowered("forward"), "xnnpack", "no kernel")
    (fallback,) = delegation.fallbacks
    assert operators == ("aten_cumsum_default",) and fallback.count == 2
    values, products = 8 * 14 * 14, 8 * 14 * 14 * 4 * 9
    results = 8 * 14 * 6
    inside = products + values + results * 14
    assert fallback.share == 2 * results / (inside + 2 * results)
    assert delegation.delegated_share == 1 - fallback.share > 0.97
    assert delegation.delegates == 1 and delegation.delegated_operators >= 3


@pytest.mark.long
def test_shares_are_those_of_the_method_that_decodes() -> None:
    one, _ = delegated_operators(lowered("forward"), "xnnpack", "no kernel")
    two, _ = delegated_operators(lowered("decode", "prefill"), "xnnpack", "no kernel")
    assert two.delegated_share == one.delegated_share
    assert [each.count for each in two.fallbacks] == [4] and two.delegates == 2
