from __future__ import annotations

from dataclasses import replace

import pytest

from edgec.exporter.recipes.calibrated import is_layerwise, reads_text
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe, for_backend

FOUR = for_backend(load_recipe("int4-channel"), "xnnpack")


@pytest.mark.parametrize(
    ("name", "backend", "reads"),
    [
        ("4bit-gptq", "xnnpack", True),
        ("int4-channel", "xnnpack", False),
        ("float", "xnnpack", False),
        ("lut4", "coreml", True),
        ("lut2", "coreai", True),
        ("float", "coreml", False),
        ("balanced2", "xnnpack", False),
        ("int4-channel", "qnn", False),
    ],
)
def test_recipes_by_what_their_backend_makes_of_them(name: str, backend: str, reads: bool) -> None:
    assert reads_text(for_backend(load_recipe(name), backend)) is reads


@pytest.mark.parametrize(("algorithm", "layerwise"), [("gptq", True), ("importance", False)])
def test_algorithms_that_use_what_layers_read(algorithm: str, layerwise: bool) -> None:
    recipe = replace(FOUR, algorithm=algorithm)
    assert reads_text(recipe) and is_layerwise(recipe) is layerwise


@pytest.mark.parametrize(("prepare", "reads"), [(("awq",), True), (("rotate", "smooth"), True), (("rotate",), False)])
def test_preparations_that_use_what_layers_read(prepare: tuple[str, ...], reads: bool) -> None:
    assert reads_text(replace(FOUR, prepare=prepare)) is reads


def test_nothing_that_is_rounded_needs_no_text() -> None:
    assert not reads_text(Recipe("r", algorithm="importance"))
