"""Budgets that a caller gives, and what a refusal says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgec.errors import BudgetError
from edgec.exporter.parity import ladder
from edgec.exporter.parity.ladder import Stage, executed_budget, gate, lowering_rung, quality_rung
from edgec.exporter.parity.output_form import forms_of
from edgec.exporter.parity.outputs import flatten_outputs
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe
from edgec.exporter.stages.module_measure import module_budget
from edgec.exporter.stages.static_decoder import lowering_budget


def test_a_callers_budget_loosens_lowering_and_a_recipes_does_not() -> None:
    recipe = load_recipe("4bit")
    assert recipe.budgets and executed_budget(recipe, rounded=True) == ladder.ROUNDED_LOWERING
    asked = replace(recipe, accepted={"kl_mean": 0.5, "top1_agreement": 0.9, "max_abs": 1.0})
    assert executed_budget(asked, rounded=True) == {"kl_mean": 0.5, "top1_agreement": 0.9}
    tighter = replace(recipe, accepted={"kl_mean": 1e-9})
    assert executed_budget(tighter, rounded=True) == ladder.ROUNDED_LOWERING
    for half, untrained in ((True, True), (True, False), (False, False)):
        assert lowering_budget(asked, half=half, untrained=untrained)["kl_mean"] == 0.5


def test_a_module_takes_the_budgets_that_it_has() -> None:
    recipe = Recipe("own", budgets={"kl_mean": 1.0, "channel_relative": 2.0})
    assert module_budget(recipe) == {"max_relative": 0.25, "channel_relative": 2.0}
    values = torch.randn(1, 64, 5, generator=torch.Generator().manual_seed(0))
    (form,) = forms_of(values)
    one, other = (Stage(name, flatten_outputs(v), form=form) for name, v in (("a", values), ("b", -values)))
    rung = quality_rung(one, other, {**module_budget(recipe), "kl_mean": 1.0}, gated=True)
    assert set(rung.budget) == {"max_relative", "channel_relative"}
    with pytest.raises(BudgetError) as caught:
        gate([rung])
    assert "kl_mean" not in caught.value.fix and "--budget max_relative=LIMIT" in caught.value.fix


def test_a_refused_rounded_lowering_blames_nobody_alone_and_says_how_to_accept_it() -> None:
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    moved = logits + 0.5 * torch.randn(40, 50, generator=torch.Generator().manual_seed(1))
    rung = lowering_rung(Stage("graph", logits), Stage("artifact", moved), ladder.ROUNDED_LOWERING, rounded=True)
    with pytest.raises(BudgetError) as caught:
        gate([rung])
    assert "--budget kl_mean=LIMIT" in caught.value.fix and "not the model" not in caught.value.fix
    exact = lowering_rung(Stage("graph", logits), Stage("a pass", moved))
    with pytest.raises(BudgetError) as caught:
        gate([exact])
    assert "--budget" not in caught.value.fix and "not the model" in caught.value.fix
