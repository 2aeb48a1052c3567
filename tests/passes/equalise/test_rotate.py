from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import decisions_of, matrix
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.rounding.weight_grid import quantize_weight
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.equalise.rotate import ROTATED, Rotate, orthogonal
from edgec.passes.kv.kv_cache import KvCache
from tests.example_counts import examples
from tests.passes.prepared_decoders import NAMES, TOLERANCE, logits, uneven

aten = torch.ops.aten
HIDDEN = {"llama": True, "qwen2": True, "qwen3": True, "gemma3_text": False, "phi3": True}


@given(st.integers(1, 400), st.integers(0, 3))
@settings(max_examples=examples(40), deadline=None)
def test_matrices_are_orthogonal(size: int, seed: int) -> None:
    turn = orthogonal(size, seed).double()
    # float32 entries: an inner product of 400 of them is exact to 1e-6
    assert torch.allclose(turn @ turn.T, torch.eye(size, dtype=torch.float64), atol=1e-5)


def test_powers_of_two_have_entries_of_one_size_and_fit_into_integers() -> None:
    turn = orthogonal(64)
    assert torch.allclose(turn.abs(), torch.full((64, 64), 0.125))
    rounded = quantize_weight(turn, WeightScheme(4, 32, scale_bits=16), "mse").dequantize()
    assert torch.allclose(rounded, turn, rtol=2**-8)  # one bfloat16 scale


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in ("qwen2", "qwen3") else []) for name in NAMES]
)
def test_rotation_is_exact(name: str) -> None:
    before = uneven(name)
    after = run_pass(before, Rotate())
    assert torch.allclose(logits(after), logits(before), atol=TOLERANCE)
    assert ("hidden state" in after.graph.meta[ROTATED]) is HIDDEN[name]
    assert "3 layers' values" in after.graph.meta[ROTATED]


@pytest.mark.long
@pytest.mark.parametrize("name", ["qwen3", "phi3"])
def test_weights_do_change_and_norms_become_ones(name: str) -> None:
    before = uneven(name)
    after = run_pass(before, Rotate())
    down = "decoder.model.layers.1.mlp.down_proj.weight"
    assert not torch.allclose(attribute(after.graph, down), attribute(before.graph, down), atol=0.05)
    norm = attribute(after.graph, "decoder.model.layers.1.input_layernorm.weight")
    assert torch.equal(norm, torch.ones_like(norm))


def test_channels_that_stand_out_are_spread() -> None:
    before = uneven("phi3")
    name = "decoder.model.embed_tokens.weight"
    with torch.no_grad():
        attribute(before.graph, name)[:, 3] *= 50
    after = run_pass(before, Rotate())
    assert torch.allclose(logits(after), logits(before), atol=10 * TOLERANCE)
    table = attribute(after.graph, name)
    assert float(table.abs().amax() / table.square().mean().sqrt()) < 10


def test_a_tied_matrix_stays_one_tensor() -> None:
    before = uneven("llama")
    after = run_pass(before, Rotate())
    lookup, last = nodes_of(after.graph, aten.embedding.default)[0], nodes_of(after.graph, aten.linear.default)[-1]
    held = [matrix(after.graph, node) for node in (lookup.args[0], last.args[1])]  # type: ignore[arg-type]
    assert held[0].data_ptr() == held[1].data_ptr()
    added = len(nodes_of(after.graph, aten.linear.default)) - len(nodes_of(before.graph, aten.linear.default))
    assert added == 2


@pytest.mark.long
def test_a_second_time_changes_nothing() -> None:
    once = run_pass(uneven("qwen3"), Rotate())
    assert torch.equal(logits(run_pass(once, Rotate())), logits(once))


@pytest.mark.long
def test_the_original_keeps_its_weights() -> None:
    before = uneven("qwen2")
    wanted = logits(before)
    run_pass(before, Rotate())
    assert torch.equal(logits(before), wanted)


@pytest.mark.long
def test_what_follows_takes_the_rotated_model() -> None:
    after = run_pass(run_pass(uneven("llama"), Rotate()), KvCache(64, 12))
    rounded = run_pass(after, Quantize(default=WeightScheme(8, 0)))
    assert all(d.used for d in decisions_of(rounded.graph) if d.role == "linear")
    # 8-bit weights and activations on random weights: a few per cent of the logits
    assert float((logits(rounded) - logits(after)).norm()) < 0.1 * float(logits(after).norm())


def test_what_cannot_be_rotated_is_refused() -> None:
    from edgec.exporter.capture.module import capture_module

    program = capture_module(torch.nn.Linear(8, 8), (torch.zeros(1, 8),))
    with pytest.raises(InputError) as caught:
        run_pass(run_pass(program, RemoveNoops()), Rotate())
    assert caught.value.code == "E522"
