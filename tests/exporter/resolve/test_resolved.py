"""Budgets that the caller gives stand above those of the recipe, also where it has words of its own for a backend."""

from __future__ import annotations

import pytest

from edgec.devices.targets import load_target
from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.file import recipe_names
from edgec.exporter.resolve.resolved import _load_recipe
from edgec.exporter.resolve.target_choice import in_format

TARGETS = {
    "xnnpack": load_target("host"),
    "coreml": load_target("iphone"),
    "coreai": in_format(load_target("iphone"), "aimodel"),
}


@pytest.mark.parametrize("backend", TARGETS)
@pytest.mark.parametrize("name", recipe_names())
def test_given_budgets_stand_above_the_recipes(name: str, backend: str) -> None:
    target = TARGETS[backend]
    assert target.backend == backend
    own = _load_recipe(ExportOptions("m", recipe=name), target).budgets
    assert _load_recipe(ExportOptions("m", recipe=name, budgets={"kl_mean": 7.0}), target).budgets == {
        **own,
        "kl_mean": 7.0,
    }
