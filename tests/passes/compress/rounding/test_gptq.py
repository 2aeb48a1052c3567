from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edgec.errors import InputError
from edgec.ir.attributes import attribute
from edgec.ir.quantized_form import decisions_of
from edgec.ir.weight_scheme import WeightScheme, balanced, lut
from edgec.passes.compress.palettize import Palettize
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.compress.rounding.gptq import Curvature, TableGrid, assign, gptq_balanced, gptq_integers, gptq_table
from edgec.passes.compress.rounding.weight_grid import quantize_weight
from edgec.passes.compress.rounding.weight_tables import balanced_integers, tabulate
from edgec.passes.contract import run_pass
from edgec.passes.graph.calibration import Calibration
from edgec.passes.kv.kv_cache import KvCache
from tests.example_counts import examples
from tests.passes.prepared_decoders import calibration, logits, uneven

FOUR, PLAIN = WeightScheme(4, 32, activation_bits=0), WeightScheme(4, 0, activation_bits=0)


def _layer(rows: int = 24, width: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Weights, and inputs whose channels depend on each other."""
    random = torch.Generator().manual_seed(seed)
    mixed = torch.randn(512, width // 4, generator=random) @ torch.randn(width // 4, width, generator=random)
    return torch.randn(rows, width, generator=random), mixed + 0.3 * torch.randn(512, width, generator=random)


def _error(weight: Tensor, rounded: Tensor, inputs: Tensor) -> float:
    return float((inputs @ (weight - rounded).T).square().mean())


@given(st.integers(0, 50), st.sampled_from([2, 4, 8]), st.sampled_from([0, 16, 32]))
@settings(max_examples=examples(25), deadline=None)
def test_outputs_are_nearer_than_those_of_nearest_values(seed: int, bits: int, group: int) -> None:
    weight, inputs = _layer(seed=seed)
    scheme = WeightScheme(bits, group, activation_bits=0)
    rounded = gptq_integers(weight, scheme, Curvature.of(inputs))
    nearest = quantize_weight(weight, scheme, "mse")
    assert _error(weight, rounded.dequantize(), inputs) < 0.7 * _error(weight, nearest.dequantize(), inputs)
    low, high = scheme.bounds
    assert int(rounded.integers.min()) >= low and int(rounded.integers.max()) <= high


@pytest.mark.parametrize("scheme", [lut(3, 8), lut(2, 4), lut(4)], ids=str)
def test_tables_are_rounded_in_the_same_way(scheme: WeightScheme) -> None:
    weight, inputs = _layer()
    rounded, nearest = gptq_table(weight, scheme, Curvature.of(inputs)), tabulate(weight, scheme)
    assert _error(weight, rounded.dequantize(), inputs) < 0.7 * _error(weight, nearest.dequantize(), inputs)


def test_the_balanced_set_keeps_its_integers() -> None:
    weight, inputs = _layer()
    rounded, nearest = gptq_balanced(weight, balanced(1), Curvature.of(inputs)), balanced_integers(weight, balanced(1))
    assert set(rounded.integers.unique().tolist()) <= {-3, -1, 1, 3} and torch.equal(rounded.scale, nearest.scale)
    assert _error(weight, rounded.dequantize(), inputs) < 0.8 * _error(weight, nearest.dequantize(), inputs)


def test_inputs_that_do_not_depend_on_each_other_leave_nearest_values() -> None:
    weight, _ = _layer()
    inputs = torch.eye(64).repeat(2, 1) * torch.linspace(1, 2, 64)
    table = torch.linspace(-2, 2, 9).expand(24, 9)
    codes = assign(weight, TableGrid(table), Curvature.of(inputs, damping=0.0))
    assert torch.equal(codes.long(), (weight[..., None] - table[:, None]).abs().argmin(-1))


def test_a_channel_that_is_never_used_does_no_harm() -> None:
    weight, inputs = _layer()
    inputs[:, 7] = 0
    rounded = gptq_integers(weight, FOUR, Curvature.of(inputs))
    assert bool(torch.isfinite(rounded.dequantize()).all())


@pytest.mark.sweep(1)
@pytest.mark.long
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "phi3"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_model_loses_less(name: str, cached: bool) -> None:
    before = uneven(name)
    before = run_pass(before, KvCache(64, 12)) if cached else before
    wanted = logits(before)
    errors = {}
    for algorithm in ("rtn", "gptq"):
        after = run_pass(before, Quantize(default=FOUR, algorithm=algorithm, calibration=calibration()))
        errors[algorithm] = float((logits(after) - wanted).norm())
    assert errors["gptq"] < 0.9 * errors["rtn"]
    decided = {d.algorithm for d in decisions_of(after.graph) if d.role == "linear"}
    assert decided == {"mse, gptq"}


@pytest.mark.long
def test_states_are_left_as_they_were() -> None:
    program = run_pass(uneven("llama"), KvCache(64, 12))
    after = run_pass(program, Quantize(default=FOUR, algorithm="gptq", calibration=calibration()))
    assert all(not attribute(after.graph, state.buffer).any() for state in after.interface.states)


@pytest.mark.long
def test_activations_are_rounded_as_without_calibration() -> None:
    eight = WeightScheme(8, 0)
    graphs = [
        run_pass(uneven("qwen3"), Quantize(default=eight, algorithm=a, calibration=calibration())).graph
        for a in ("mse", "gptq")
    ]
    assert [n.target for n in graphs[0].graph.nodes if n.op != "get_attr"] == [
        n.target for n in graphs[1].graph.nodes if n.op != "get_attr"
    ]


@pytest.mark.long
def test_layers_with_too_few_inputs_get_nearest_values() -> None:
    after = run_pass(uneven("llama"), Quantize(default=PLAIN, algorithm="gptq", calibration=calibration(70)))
    algorithms = {d.name: d.algorithm for d in decisions_of(after.graph)}
    assert algorithms["model.layers.0.mlp.up_proj.weight"] == "mse, gptq"
    assert algorithms["model.layers.0.mlp.down_proj.weight"] == "mse"  # 96 wide


@pytest.mark.long
def test_a_tied_table_shares_the_vocabulary_matrixs_integers() -> None:
    eight = WeightScheme(8, 0, activation_bits=0)
    program = run_pass(
        uneven("llama"), Quantize(default=None, lm_head=eight, algorithm="gptq", calibration=calibration(9000))
    )
    after = run_pass(program, QuantizeEmbedding(8, 0, "gptq", min_rows=8))
    decided = {d.role: d for d in decisions_of(after.graph) if d.used}
    assert decided["vocabulary"].buffers == decided["embedding"].buffers
    assert decided["vocabulary"].algorithm == "mse, gptq"


@pytest.mark.long
def test_tables_of_a_model_lose_less() -> None:
    before = uneven("qwen2")
    wanted, errors = logits(before), {}
    for compensate in (False, True):
        after = run_pass(before, Palettize(default=lut(2, 4), calibration=calibration(), compensate=compensate))
        errors[compensate] = float((logits(after) - wanted).norm())
    assert errors[True] < 0.9 * errors[False]


@pytest.mark.parametrize("rewrite", [Quantize(algorithm="gptq"), Palettize(default=lut(4), compensate=True)])
def test_text_is_needed(rewrite: Quantize | Palettize) -> None:
    with pytest.raises(InputError) as caught:
        run_pass(uneven("llama"), rewrite)
    assert caught.value.code == "E521"


def test_calibrations_are_compared_by_their_tokens() -> None:
    assert Calibration([1, 2]) == Calibration([1, 2]) != Calibration([1, 3])
    assert Calibration() == Calibration() and hash(Calibration([1])) == hash(Calibration([1]))


def test_inputs_that_float32_cannot_invert_are_damped_more() -> None:
    inputs = torch.randn(512, 1) @ torch.ones(1, 64)
    assert bool(Curvature.of(inputs, damping=1e-6).factor.isfinite().all())


def test_inputs_without_an_end_are_refused() -> None:
    inputs = torch.full((8, 4), float("nan"))
    with pytest.raises(InputError) as caught:
        Curvature.of(inputs)
    assert caught.value.code == "E525"
