"""The table of module speeds goes on where an engine refuses a network, and has coremltools' own package in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks.module_speed import Refused, Subject, _coremltools, _tried, measured
from benchmarks.real_networks.network import Inputs, Made, Network


class Small(nn.Module):
    """A linear layer with a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x).softmax(-1)
        return result


def small() -> Made:
    """The network, and a row."""
    torch.manual_seed(0)
    return Small().eval(), (torch.randn(1, 8),)


def drawn(generator: torch.Generator) -> Inputs:
    """Another row."""
    return (torch.randn(1, 8, generator=generator),)


def largest(wanted: Sequence[Tensor], got: Sequence[Tensor]) -> float:
    """The largest difference."""
    return float((wanted[0] - got[0]).detach().abs().max())


NETWORK = Network("none", "none", small, drawn, ("of one", largest), 0.1)


@pytest.mark.long
def test_an_engine_that_refuses_has_its_words_in_its_row(tmp_path: Path) -> None:
    def refusing() -> Subject:
        raise ValueError("no such\n operator")

    module, first = small()

    def broken(inputs: Inputs) -> Sequence[Tensor]:
        raise RuntimeError("it stops while it runs")

    found = [
        _tried("peer", refusing, first),
        _tried("other peer", lambda: Subject("", 1, broken), first),
        _tried("eager", lambda: Subject("", 144, lambda x: [module(*x)]), first),
        _tried("coremltools", lambda: _coremltools(NETWORK, module, first, tmp_path), first),
    ]
    assert [type(each) for each in found] == [Refused, Refused, Subject, Subject]
    generator = torch.Generator().manual_seed(1)
    rows = list(measured(found, NETWORK, [drawn(generator) for _ in range(3)]))
    assert [row[0] for row in rows] == ["peer", "other peer", "eager", "coremltools"]
    assert rows[0][-1] == "ValueError: no such operator" and rows[1][-1].endswith("it stops while it runs")
    assert rows[2][1] == "144" and float(rows[2][2]) > 0 and rows[2][-1] == "0 / 0 of one"
    # float16 of probabilities: their last digit; an interpreter's time says nothing.
    assert rows[3][2] == "" and 0 < float(rows[3][-1].split()[2]) < 1e-3
