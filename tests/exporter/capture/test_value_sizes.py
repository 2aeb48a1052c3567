"""Modules whose results differ in number are refused, with what to return instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from edgec.errors import InputError
from edgec.exporter.capture.module import capture_module
from edgec.exporter.capture.value_sizes import refuse_sizes_by_value


class Results(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


CASES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "rows above a threshold": (lambda x: x[x.sum(-1) > 0], "best of a fixed number"),
    "a sum over such rows": (lambda x: x[x.sum(-1) > 0].sum(0), "best of a fixed number"),
    "symbols without repeats": (lambda x: torch.unique_consecutive(x.argmax(-1)), "set to the blank"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_of_results_that_values_decide_is_refused(name: str) -> None:
    function, advice = CASES[name]
    with pytest.raises(InputError) as error:
        refuse_sizes_by_value(capture_module(Results(function), (torch.ones(4, 3),)).graph, "module")
    assert error.value.code == "E946" and advice in error.value.fix


def test_a_fixed_number_is_none_of_these() -> None:
    refuse_sizes_by_value(capture_module(Results(lambda x: x.topk(2).values), (torch.ones(4, 3),)).graph, "module")
