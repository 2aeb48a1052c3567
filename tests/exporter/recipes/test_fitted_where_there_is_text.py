"""``gptq-or-mse``: fitted to text where an export has some, and never refused where it has none."""

from __future__ import annotations

import pytest

from edgec.exporter.recipes.calibrated import is_layerwise
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import for_backend
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.graph.calibration import Calibration

TEXT = Calibration((1, 2, 3))


@pytest.mark.parametrize("backend", ["coreml", "coreai", "qnn"])
def test_npus_get_layers_fitted_to_text_where_there_is_one(backend: str) -> None:
    recipe = for_backend(load_recipe("4bit"), backend)
    assert recipe.algorithm == "gptq-or-mse" and is_layerwise(recipe)
    for known in (TEXT, None):
        for each in passes_for(recipe, known):
            if isinstance(each, Palettize):
                assert each.compensate == bool(known)
            if isinstance(each, Quantize):
                assert each.algorithm == ("gptq" if known else "mse")


MORE_BITS = {"coreml": (("k", "v", "o", "down"), 6), "coreai": (("k", "v", "o", "down"), 6), "qnn": (("v", "down"), 8)}


@pytest.mark.parametrize("backend", MORE_BITS)
def test_what_errors_cost_most_in_gets_more_bits(backend: str) -> None:
    recipe, (names, bits) = for_backend(load_recipe("4bit"), backend), MORE_BITS[backend]
    assert recipe.weights is not None and recipe.weights.bits == 4
    rules = [(pattern, scheme.bits) for pattern, scheme in recipe.rules if scheme]
    assert rules == [(f"*.{name}_proj.weight", bits) for name in names]
