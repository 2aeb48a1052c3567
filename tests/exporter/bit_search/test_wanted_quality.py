"""The bit search the other way round: a wanted divergence, and the fewest bytes that keep it."""

from __future__ import annotations

import pytest
import torch

from edgec.exporter.bit_search.allocation import WidthChoice
from edgec.exporter.bit_search.expected_loss import expected_losses
from edgec.exporter.bit_search.search import open_layers
from edgec.exporter.bit_search.wanted_quality import most_bits, schemes_of_layer, widen, wider_schemes
from edgec.exporter.recipes.file import load_recipe
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.graph.calibration import Calibration
from tests.passes.deep_decoders import tokens
from tests.passes.prepared_decoders import every_position

CPU = for_backend(load_recipe("4bit"), "xnnpack")
FOUR, EIGHT = WeightScheme(4, 32), WeightScheme(8, 32)
# Layer a loses most, and b least for its size.
LAYERS = {
    "a": [WidthChoice(FOUR, 400.0, 8.0), WidthChoice(EIGHT, 800.0, 0.5)],
    "b": [WidthChoice(FOUR, 4000.0, 1.0), WidthChoice(EIGHT, 8000.0, 0.1)],
    "c": [WidthChoice(FOUR, 400.0, 1.0), WidthChoice(EIGHT, 800.0, 0.1)],
}


def test_the_layer_where_a_bit_buys_most_comes_first() -> None:
    widened = widen(CPU, LAYERS, measured=1.0, wanted=0.3)
    assert widened.chosen == {"a": EIGHT} and widened.added_bytes == 50
    assert widened.expected_kl == pytest.approx(0.25), "2.5 of 10 parts of the measured divergence"
    assert widened.recipe.rules == (*CPU.rules, ("a", EIGHT)) and widened.layers == 3


def test_no_more_is_spent_than_the_wanted_quality_takes() -> None:
    assert widen(CPU, LAYERS, measured=1.0, wanted=1.0).chosen == {}
    assert list(widen(CPU, LAYERS, measured=1.0, wanted=0.17).chosen) == ["a", "c"]
    assert len(widen(CPU, LAYERS, measured=1.0, wanted=0.0).chosen) == 3
    assert most_bits(CPU, LAYERS, 1.0).expected_kl == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("backend", "recipe", "bits"),
    [("xnnpack", "4bit", {8}), ("coreml", "4bit", {6, 8}), ("qnn", "4bit", {8}), ("onnx", "4bit", {8})],
)
def test_each_backend_offers_what_it_holds_from_few_bits_to_many(backend: str, recipe: str, bits: set[int]) -> None:
    own = for_backend(load_recipe(recipe), backend)
    wider = wider_schemes(own)
    # Further widths of a backend's table are offered as soon as they stand in it.
    assert bits <= {each.bits for each in wider} and min(each.bits for each in wider) > 4
    assert [each.bits for each in wider] == sorted(each.bits for each in wider)
    first, *others = schemes_of_layer((64, 96), own)
    assert first.bits == 4 and others and all(each.bits > 4 for each in others)


def losses(recipe: Recipe) -> dict[str, list[WidthChoice]]:
    program = every_position("llama")
    calls = [[torch.tensor([tokens(512)[i : i + 64]]), torch.arange(64)] for i in range(0, 512, 64)]
    sizes = open_layers(program, recipe)
    schemes = lambda name, shape: schemes_of_layer(shape, recipe) if name in sizes else ()  # noqa: E731
    return expected_losses(program, Calibration(calls=calls), schemes)


@pytest.mark.long
@pytest.mark.parametrize("recipe", [CPU, for_backend(load_recipe("4bit"), "coreml")], ids=["integers", "tables"])
def test_wider_forms_of_a_layer_cost_less(recipe: Recipe) -> None:
    found = losses(recipe)
    # Projections that errors cost most in have rules of their own, which stand.
    assert len(found) == 21 - 3 * len(recipe.rules)
    for own, *wider in found.values():
        assert own.scheme.bits == 4
        for each in wider:
            assert each.bits > own.bits and each.loss < 0.3 * own.loss


def test_a_table_costs_what_k_means_makes_of_it() -> None:
    """Within a factor of two, which is all that a comparison of layers needs."""
    from edgec.passes.compress.rounding.weight_tables import tabulate

    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    for bits in (3, 4, 6):
        table = tabulate(weight, lut(bits, 8), "", torch.ones(256)).dequantize()
        expected = float(weight.square().mean()) * 2.72 * 4.0**-bits
        assert 0.5 < expected / float((table - weight).square().mean()) < 2
