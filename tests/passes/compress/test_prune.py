from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.compress.prune import Prune
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.rounding.sparse_weights import METHODS
from edgec.passes.contract import run_pass
from tests.example_counts import examples
from tests.passes.compress.rounding.test_gptq import _error, _layer
from tests.passes.prepared_decoders import calibration, logits, uneven

UP = "decoder.model.layers.1.mlp.up_proj.weight"


@given(st.integers(0, 20), st.sampled_from(sorted(METHODS)), st.sampled_from([(0.5, 4), (0.5, 0), (0.25, 8)]))
@settings(max_examples=examples(25), deadline=None)
def test_every_block_loses_its_share(seed: int, method: str, how: tuple[float, int]) -> None:
    weight, inputs = _layer(seed=seed)
    sparsity, block = how
    zeros = METHODS[method](weight, inputs, sparsity, block) == 0
    counts = zeros.view(len(weight), -1, block or weight.shape[1]).sum(-1)
    assert bool((counts == round(sparsity * (block or weight.shape[1]))).all())


def test_each_method_loses_less_than_the_one_before() -> None:
    weight, inputs = _layer(width=256)
    # Inputs of one block differ in size: where they are alike, weights and products have the same order.
    inputs = inputs * torch.linspace(0.2, 3, 256).view(4, 64).T.flatten()
    errors = [
        _error(weight, METHODS[name](weight, inputs, 0.5, 4), inputs) for name in ("magnitude", "wanda", "sparsegpt")
    ]
    assert errors[2] < 0.95 * errors[1] and errors[1] < 0.95 * errors[0]


@pytest.mark.parametrize("block", [0, 4])
def test_a_models_layers_get_zeros_and_its_vocabulary_matrix_none(block: int) -> None:
    before = uneven("llama")
    after = run_pass(before, Prune(0.5, block, "sparsegpt", calibration()))
    assert float((attribute(after.graph, UP) == 0).float().mean()) == 0.5
    assert not bool((attribute(after.graph, "decoder.lm_head.weight") == 0).any())
    wanted = logits(before)
    plain = run_pass(before, Prune(0.5, block, "magnitude", calibration()))
    assert float((logits(after) - wanted).norm()) < float((logits(plain) - wanted).norm())
    again = run_pass(after, Prune(0.5, block, "magnitude", calibration()))
    assert torch.equal(logits(again), logits(after))


def test_rounding_to_the_nearest_keeps_zeros() -> None:
    pruned = run_pass(uneven("llama"), Prune(0.5, 4, "wanda", calibration()))
    rounded = run_pass(pruned, Quantize(default=WeightScheme(4, 32)))
    decision = next(d for d in decisions_of(rounded.graph) if d.name == UP.removeprefix("decoder."))
    integers = attribute(rounded.graph, decision.buffers[0])
    assert bool((integers[attribute(pruned.graph, UP) == 0] == 0).all())


@pytest.mark.parametrize(
    "wrong", [{"method": "luck"}, {"sparsity": 1.0}, {"block": -1}, {"block": 7}, {"sparsity": 0.1, "block": 4}]
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        run_pass(uneven("llama"), Prune(**{"calibration": calibration(), **wrong}))  # type: ignore[arg-type]
    assert caught.value.code == "E524"
