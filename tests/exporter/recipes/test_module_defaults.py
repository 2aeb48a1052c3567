"""The default recipes of non-decoder models: float16 on accelerators, 8 bits and then float on CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgec.exporter.options import ExportOptions
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.module_defaults import DEFAULT_LIMIT, DEFAULT_PROBABILITY
from edgec.exporter.recipes.recipe import for_backend
from edgec.exporter.resolve.resolved import resolve_options

VIT = "tests.exporter.module_factories:vit"
TINY_STORIES = "examples/tiny-stories"


@pytest.mark.long
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("target", "form", "recipes"),
    [
        ("host", None, ["8bit", "float"]),
        ("android-cpu", None, ["8bit", "float"]),
        ("android-cpu", "onnx", ["8bit", "float"]),
        ("iphone", None, ["float"]),
        ("iphone", "mlpackage", ["float"]),
        ("iphone", "aimodel", ["float"]),
        ("android-gpu", None, ["float"]),
        ("snapdragon-8-elite", None, ["8bit"]),
    ],
)
def test_a_module_begins_with_what_its_target_holds(
    target: str, form: str | None, recipes: list[str], tmp_path: Path
) -> None:
    request = resolve_options(ExportOptions(VIT, target=target, format=form, out=tmp_path / "x.edgec")).request
    assert [each.name for each in (request.recipe, *request.further_recipes)] == recipes
    assert all(each.backend == request.target.backend for each in request.further_recipes)


@pytest.mark.long
def test_only_a_default_that_another_follows_has_a_narrower_limit(tmp_path: Path) -> None:
    def limits(**options: object) -> list[float | None]:
        given = ExportOptions(VIT, out=tmp_path / "x.edgec", **options)  # type: ignore[arg-type]
        request = resolve_options(given).request
        return [each.budgets.get("max_relative") for each in (request.recipe, *request.further_recipes)]

    assert limits() == [DEFAULT_LIMIT, None]
    first, last = resolve_defaults(tmp_path)
    assert first["probability"] == DEFAULT_PROBABILITY and "probability" not in last
    assert limits(recipe="8bit") == [None] and limits(target="iphone") == [None]
    assert limits(budgets={"max_relative": 0.5}) == [0.5, 0.5]


def resolve_defaults(folder: Path) -> list[Mapping[str, float]]:
    """The budgets of the recipes that are tried where nothing is asked for."""
    request = resolve_options(ExportOptions(VIT, out=folder / "x.edgec")).request
    return [each.budgets for each in (request.recipe, *request.further_recipes)]


@pytest.mark.long
def test_decoders_and_named_recipes_are_as_before(tmp_path: Path) -> None:
    decoder = resolve_options(ExportOptions(TINY_STORIES, out=tmp_path / "x.edgec")).request
    assert decoder.recipe.name == "4bit" and decoder.further_recipes == ()
    own = for_backend(load_recipe("4bit"), "xnnpack")
    named = resolve_options(ExportOptions(VIT, recipe="4bit", out=tmp_path / "x.edgec")).request
    assert named.recipe.weights == own.weights and named.further_recipes == ()
