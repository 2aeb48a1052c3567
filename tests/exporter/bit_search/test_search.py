from __future__ import annotations

import tomllib
from dataclasses import replace
from functools import lru_cache

import pytest
import torch

from edgec.bundle.manifest import BitSearch
from edgec.errors import InputError
from edgec.exporter.bit_search.search import candidate_schemes, search_bits
from edgec.exporter.bit_search.sensitivity import mean_square_gradients, measure_choices
from edgec.exporter.progress import Progress
from edgec.exporter.recipes.file import load_recipe, parse_recipe, recipe_names
from edgec.exporter.recipes.passes import passes_for
from edgec.exporter.recipes.recipe import Recipe, for_backend
from edgec.exporter.recipes.text import recipe_text
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme, lut
from edgec.passes.contract import run_passes
from edgec.passes.graph.calibration import Calibration
from tests.passes.deep_decoders import tokens
from tests.passes.prepared_decoders import every_position

CPU = for_backend(load_recipe("4bit"), "xnnpack")
COREML = for_backend(load_recipe("lut4"), "coreml")


# Two of three layers are ruled: a search among seven matrices.
RULED = replace(COREML, rules=(("model.layers.[01].*", lut(2, 8)),))


@lru_cache(maxsize=1)
def searched_one_layer() -> tuple[Recipe, BitSearch]:
    return search_bits(every_position("llama"), RULED, tokens(512), 4.5, 64, Progress())


@pytest.mark.slow
def test_the_search_keeps_its_budget_and_its_result_can_be_repeated() -> None:
    recipe, search = search_bits(every_position("llama"), COREML, tokens(1024), 3.5, 64, Progress())
    assert search.bits <= 3.5 and len(search.layers) == 21
    assert len({scheme for _, scheme in recipe.rules}) > 1
    bits = [point.bits for point in search.curve]
    assert bits == sorted(bits) and search.bits in bits
    assert search.curve[0].measured_kl > search.curve[-1].measured_kl
    program = run_passes(every_position("llama"), passes_for(recipe))
    linear = [d for d in decisions_of(program.graph) if d.role == "linear"]
    stored = 8 * sum(d.bytes for d in linear) / sum(d.shape[0] * d.shape[1] for d in linear)
    assert stored == pytest.approx(search.bits)
    again = parse_recipe(tomllib.loads(recipe_text(recipe)), recipe.name, "")
    assert again.rules == recipe.rules


def test_integers_keep_the_activations_that_the_recipe_asks_for() -> None:
    in_float = replace(CPU, weights=WeightScheme(4, 32, activation_bits=0, scale_bits=16))
    assert {scheme.activation_bits for scheme in candidate_schemes(CPU)} == {8}
    assert {scheme.activation_bits for scheme in candidate_schemes(in_float)} == {0}


@pytest.mark.slow
def test_cpus_go_down_to_two_bits() -> None:
    """edgec's kernels read 2 and 3 bits at their size; XNNPACK would hold them in 4."""
    # A row's sum and scale are another bit a weight at these widths, of 64 and 96 values.
    recipe, search = search_bits(every_position("llama"), CPU, tokens(512), 3.0, 64, Progress())
    assert 2.6 < search.bits <= 3.0
    used = {scheme.bits for _, scheme in recipe.rules if scheme is not None}
    assert 2 in used and used <= {2, 3, 4, 8}
    standard = for_backend(replace(load_recipe("4bit"), kernels="standard"), "xnnpack")
    assert {scheme.bits for scheme in candidate_schemes(standard)} == {4, 8}


@pytest.mark.slow
def test_the_same_text_gives_the_same_bits() -> None:
    again = search_bits(every_position("llama"), RULED, tokens(512), 4.5, 64, Progress())
    assert again == searched_one_layer()


@pytest.mark.slow
def test_own_rules_stand() -> None:
    recipe, search = searched_one_layer()
    assert recipe.rules[0] == RULED.rules[0]
    assert search.layers and all(name.startswith("model.layers.2.") for name in search.layers)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["qwen3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gemma3_text", "phi3"))]
)
def test_a_layers_expected_loss_is_near_the_measured_one(name: str) -> None:
    program = every_position(name)
    calls = [[torch.tensor([tokens(2048)[i : i + 64]]), torch.arange(64)] for i in range(0, 2048, 64)]
    known = Calibration(calls=calls)
    fisher = mean_square_gradients(program, known)
    scheme = WeightScheme(4, 32, activation_bits=0)
    layer = "model.layers.1.mlp.down_proj.weight"
    choices = measure_choices(program, known, fisher, lambda each, _: [scheme] if each == layer else (), "rtn")
    rounded = run_passes(program, passes_for(Recipe("", weights=None, rules=((layer, scheme),), algorithm="rtn")))
    with torch.no_grad():
        pairs = [(program.graph(*call)[0].log_softmax(-1), rounded.graph(*call)[0].log_softmax(-1)) for call in calls]
    measured = float(torch.cat([(a.exp() * (a - b)).sum(-1) for a, b in pairs]).mean())
    # Second order, one draw per token, inputs and gradients taken apart: the right size, not the digits.
    assert 0.3 < choices[layer][0].loss / measured < 3


@pytest.mark.long
def test_what_cannot_be_reached_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        search_bits(
            every_position("llama"), for_backend(load_recipe("4bit"), "xnnpack"), tokens(512), 1.9, 64, Progress()
        )
    assert caught.value.code == "E531" and "iphone" in caught.value.fix
    with pytest.raises(InputError) as caught:
        search_bits(every_position("llama"), COREML, tokens(100), 3.2, 64, Progress())
    assert caught.value.code == "E530"


@pytest.mark.parametrize("name", recipe_names())
@pytest.mark.parametrize("backend", ["xnnpack", "coreml"])
def test_recipes_are_written_as_they_are_read(name: str, backend: str) -> None:
    recipe = for_backend(load_recipe(name), backend)
    again = for_backend(parse_recipe(tomllib.loads(recipe_text(recipe)), name, ""), backend)
    # What it would be with other kernels is not written.
    assert replace(again, on={}) == replace(recipe, on={})
