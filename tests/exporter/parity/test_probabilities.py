"""Probabilities are known by their values, and judged in points where a budget says so."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from edgec.exporter.parity.ladder import Stage, lowering_rung, quality_rung
from edgec.exporter.parity.output_form import OutputForm, forms_of, with_probabilities

BUDGET = {"probability": 0.01, "max_relative": 0.1}


def form_of(*values: Tensor) -> OutputForm:
    return with_probabilities(forms_of([values[0]]), [(value,) for value in values])[0]


def stages(one: Tensor, other: Tensor, form: OutputForm) -> tuple[Stage, Stage]:
    return Stage("float", one.reshape(1, -1), form=form), Stage("rounded", other.reshape(1, -1), form=form)


def test_they_lie_between_0_and_1_and_some_are_likely() -> None:
    assert form_of(torch.tensor([[0.2, 0.01]]), torch.tensor([[0.9, 0.1]])).probability
    assert form_of(torch.randn(4, 7).softmax(-1), torch.eye(7)[:4]).probability
    assert not form_of(torch.tensor([[0.2, 0.01]]), torch.tensor([[0.4, 0.1]])).probability
    assert not form_of(torch.tensor([[0.2, 0.9]]), torch.tensor([[0.4, 1.1]])).probability
    assert not form_of(torch.tensor([[0.9, -0.1]])).probability
    assert not form_of(torch.tensor([[0, 1]])).probability
    assert not form_of(torch.tensor([[0.9, math.nan]])).probability
    assert not form_of(torch.zeros(1, 0)).probability


def test_points_count_and_not_shares_of_a_small_one() -> None:
    form = form_of(torch.tensor([[0.02]]), torch.tensor([[0.9]]))
    near = quality_rung(*stages(torch.tensor([0.02]), torch.tensor([0.027]), form), BUDGET, gated=True)
    assert near.passed and near.probability is not None and abs(near.probability - 0.007) < 1e-6
    assert near.budget == {"probability": 0.01}
    far = quality_rung(*stages(torch.tensor([0.9]), torch.tensor([0.88]), form), BUDGET, gated=True)
    assert not far.passed and "probability" in far.budget
    lost = quality_rung(*stages(torch.tensor([0.9]), torch.tensor([math.nan]), form), BUDGET, gated=True)
    assert not lost.passed


def test_without_such_a_budget_and_for_other_outputs_nothing_changes() -> None:
    form = form_of(torch.tensor([[0.02]]), torch.tensor([[0.9]]))
    plain = quality_rung(*stages(torch.tensor([0.9]), torch.tensor([0.85]), form), {"max_relative": 0.1}, gated=True)
    assert plain.passed and plain.budget == {"channel_relative": 1.0, "max_relative": 0.1}
    scores = form_of(torch.tensor([[3.0, -2.0]]))
    other = quality_rung(*stages(torch.tensor([3.0, -2.0]), torch.tensor([3.1, -2.0]), scores), BUDGET, gated=True)
    assert other.passed and "probability" not in other.budget and other.probability is None
    again = lowering_rung(*stages(torch.tensor([0.9]), torch.tensor([0.9]), form), {"max_relative": 1e-3})
    assert again.passed and "max_relative" in again.budget
