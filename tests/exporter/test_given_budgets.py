"""Budgets that the caller gives stand above those of the recipe, also where it has words of its own for a backend."""

from __future__ import annotations

import pytest

from edgec.errors import InputError
from edgec.exporter.api import _recipe
from edgec.exporter.recipes.file import recipe_names


@pytest.mark.parametrize("backend", ["xnnpack", "coreml", "coreai"])
@pytest.mark.parametrize("name", recipe_names())
def test_given_budgets_stand_above_the_recipes(name: str, backend: str) -> None:
    own = _recipe(name, backend, None).budgets
    found = _recipe(name, backend, {"kl_mean": 7.0}).budgets
    assert found == {**own, "kl_mean": 7.0}


def test_an_unknown_budget_is_refused() -> None:
    with pytest.raises(InputError, match="no budget") as caught:
        _recipe("4bit", "coreml", {"speed": 1.0})
    assert caught.value.code == "E115"
