"""A refusal for quality names the recipes that the same target executes with more bits."""

from __future__ import annotations

import pytest

from edgec.devices.targets import load_target
from edgec.errors import BudgetError
from edgec.exporter.parity.advice import more_bits, naming_recipes
from edgec.exporter.parity.refusals import MORE_BITS, WRONG
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import for_backend


@pytest.mark.parametrize(
    ("recipe", "target", "named"),
    [
        ("4bit", "snapdragon-8-elite", ("8bit",)),
        ("8bit", "snapdragon-8-elite", ()),
        ("8bit", "host", ("float",)),
        ("lut2", "iphone", ("4bit", "4bit-small", "int4-channel", "lut4", "lut6", "8bit", "float")),
        ("lut6", "iphone", ("8bit", "float")),
    ],
)
def test_recipes_with_more_bits_are_known_by_target(recipe: str, target: str, named: tuple[str, ...]) -> None:
    phone = load_target(target)
    recipes = more_bits(for_backend(load_recipe(recipe), phone.backend), phone)
    assert recipes[-len(named) :] == named if len(named) < 3 else set(named) <= set(recipes)
    assert bool(recipes) == bool(named)


@pytest.mark.parametrize(
    ("recipe", "target", "words"),
    [
        ("4bit", "snapdragon-8-elite", "--recipe 8bit"),
        ("8bit", "snapdragon-8-elite", "--calibrate"),
        ("8bit", "iphone", "float rounds nothing"),
    ],
)
def test_a_refusal_names_them(recipe: str, target: str, words: str) -> None:
    phone = load_target(target)
    with pytest.raises(BudgetError) as caught, naming_recipes(for_backend(load_recipe(recipe), phone.backend), phone):
        raise BudgetError("the quality check failed", "stage quantize", "kl_mean 1", MORE_BITS, "E201")
    assert words in caught.value.fix and caught.value.code == "E201" and caught.value.why == "kl_mean 1"


def test_other_refusals_are_left_alone() -> None:
    with pytest.raises(BudgetError, match="bytes") as caught, naming_recipes(load_recipe("4bit"), load_target("host")):
        raise BudgetError("too many bytes", "model.pte", "", "look at the ledger", "E210")
    assert caught.value.fix == "look at the ledger"


@pytest.mark.parametrize(
    ("recipe", "target", "words"),
    [
        ("4bit", "iphone", "use --recipe 8bit or float:"),
        ("8bit", "snapdragon-8-elite", "--target android-cpu), or give real inputs"),
    ],
)
def test_a_module_is_advised_bits_that_networks_keep(recipe: str, target: str, words: str) -> None:
    phone = load_target(target)
    own = for_backend(load_recipe(recipe), phone.backend)
    with pytest.raises(BudgetError) as caught, naming_recipes(own, phone, module=True):
        raise BudgetError("the quality check failed", "stage quantize", "max_relative 1", MORE_BITS, "E201")
    assert words in caught.value.fix and "lut" not in caught.value.fix and "--calibrate" not in caught.value.fix


def test_nobody_is_told_to_do_what_was_done() -> None:
    float_recipe, phone = for_backend(load_recipe("float"), "coreml"), load_target("iphone")
    with pytest.raises(BudgetError) as caught, naming_recipes(float_recipe, phone, module=True):
        raise BudgetError("the lowering check failed", "stage artifact", "max_relative 1", WRONG, "E201")
    assert "--recipe float" not in caught.value.fix and "report it" in caught.value.fix
