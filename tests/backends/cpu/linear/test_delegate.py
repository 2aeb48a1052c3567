"""Regions of linear layers: which nodes they hold, and that the artifact computes what the graph says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.fx import GraphModule

import edgec
from edgec.backends.cpu.linear.delegate import LinearRegion, linear_regions
from edgec.backends.cpu.linear.layout import BlockRows
from edgec.backends.cpu.linear.steps import BinaryStep, MatrixGroup, NormStep
from edgec.backends.cpu.lower import lower
from edgec.backends.cpu.regions.clusters import LINEAR
from edgec.bundle.pte_layout import read_calls
from edgec.errors import InputError
from edgec.exporter.parity.execution import run_artifact, run_program
from edgec.ir.call_plan import call_plan
from edgec.ir.kernel_grids import LINEAR_KERNELS
from edgec.ir.program import Program
from edgec.ir.reexport import reexport
from edgec.ir.weight_scheme import SchemeRule, WeightScheme
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.sink_transposes import SinkTransposes
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_passes
from edgec.passes.kv.kv_cache import KvCache
from edgec.runtime_py.engines.engine import EngineModel, set_pool_threads
from tests.backends.cpu.linear.programs import EIGHT, FOUR, IN_FLOAT, MIXED, quantised
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens

FLOAT_FOUR, FLOAT_EIGHT = (replace(scheme, activation_bits=0) for scheme in (FOUR, EIGHT))
RECIPE_IN_FLOAT = """
[weights]
bits = 4
group_size = 32
scale_bits = 16
activation_bits = 0
[lm_head]
bits = 8
group_size = 0
activation_bits = 0
"""
PLAN = call_plan(24, 12, ROWS)
# Both sides quantise the same tokens with the same grid and sum whole numbers exactly; floats in another order.
TOLERANCE = 1e-5
# A number in the middle between two integers may become the other one, and later tokens attend to its token: of random
# weights with 2 bits, one such step moved logits by 2 %.
STEP = 0.05


def traced(program: Program) -> GraphModule:
    graph = reexport(program.graph, program.interface).module(check_guards=False)
    assert isinstance(graph, GraphModule)
    return graph


def groups(regions: list[LinearRegion]) -> list[MatrixGroup]:
    return [step for region in regions for step in region.steps if isinstance(step, MatrixGroup)]


@pytest.mark.long
def test_the_regions_of_a_llama_hold_every_linear_layer_and_norm() -> None:
    graph = traced(quantised())
    regions = linear_regions(graph)
    inside = {node for region in regions for node in region.nodes}
    assert set(nodes_of(graph, LINEAR)) <= inside
    # before the first attention, between the two, after the last, and the lm_head after the choice of rows
    assert len(regions) == 4
    norms = [step for region in regions for step in region.steps if isinstance(step, NormStep)]
    assert len(norms) == 5 and not any(isinstance(s, BinaryStep) for region in regions for s in region.steps)
    kinds = [(len(group.products), group.gate, group.add is not None) for group in groups(regions)]
    layer = [(1, None, True), (2, "silu", False), (1, None, True)]
    assert kinds == [(3, None, False), *layer, (3, None, False), *layer, (1, None, False)]


@pytest.mark.long
def test_a_part_of_a_value_is_an_input_and_not_a_quantised_token() -> None:
    """Mamba splits what a matrix computes, and another matrix reads a part of it."""
    rules, passes = (("*dt_proj*", EIGHT),), (SinkTransposes(), KvCache(CONTEXT, 12, "float32", 0, "edgec"))
    rounding = Quantize(rules, FOUR, EIGHT, kernels=LINEAR_KERNELS)
    graph = traced(run_passes(captured("mamba"), [*passes, rounding, FoldConstants()]))
    regions = linear_regions(graph)
    assert set(nodes_of(graph, LINEAR)) <= {node for region in regions for node in region.nodes}
    for region in regions:
        known = set(region.inputs)
        for step in region.steps:
            assert not isinstance(step, MatrixGroup) or step.x in known
            known |= {p.out for p in step.products} if isinstance(step, MatrixGroup) else {step.out}


@pytest.mark.slow
def test_biases_post_norms_and_other_gates_are_steps_too() -> None:
    with_bias = groups(linear_regions(traced(quantised("qwen2"))))
    assert [all(p.bias for p in g.products) for g in with_bias if len(g.products) == 3] == [True, True]
    gemma = linear_regions(traced(quantised("gemma3_text")))
    assert {group.gate for group in groups(gemma)} == {None, "gelu_tanh"}
    # a norm stands between the last matrix and the residual
    assert any(isinstance(step, BinaryStep) for region in gemma for step in region.steps)


@pytest.mark.long
def test_float_layers_are_left_to_xnnpack() -> None:
    program = quantised(lm_head=None)
    lowered = lower(program, block_rows=BlockRows.X86)
    assert lowered.delegation.backend == "edgec_linear, xnnpack"
    assert lowered.delegation.delegates == 4


@pytest.mark.long
@pytest.mark.parametrize("family", ["llama", pytest.param("gemma3_text", marks=pytest.mark.slow)])
def test_an_artifact_computes_what_its_graph_says_in_either_layout(family: str, tmp_path: Path) -> None:
    program = quantised(family, MIXED)
    wanted, results = run_program(program, tokens(24), PLAN), []
    for rows in BlockRows:
        lowered = lower(program, block_rows=rows)
        artifact = tmp_path / f"{rows.name}.pte"
        artifact.write_bytes(lowered.artifact)
        results.append(run_artifact(artifact, tokens(24), PLAN).clone())
        encodings = {constant.encoding for constant in lowered.stored}
        assert encodings == {"int2", "int3", "int4", "int8", "float32"} and lowered.delegation.delegates == 4
    errors = (results[0] - wanted).abs().amax(-1) / wanted.abs().max()
    assert float(errors.quantile(0.25)) <= TOLERANCE and float(errors.max()) <= STEP
    assert torch.equal(results[0], results[1]), "a layout changes the numbers"


# Every width of codes with minimums, and both ways to read a token.
LIFTED: tuple[SchemeRule, ...] = tuple(
    (f"*{name}_proj*", WeightScheme(bits, 32, False, activation_bits, scale_bits))
    for name, bits, activation_bits, scale_bits in [
        *(("q", 2, 8, 6), ("k", 3, 0, 6), ("v", 6, 0, 16), ("o", 4, 8, 16)),
        *(("gate", 5, 8, 6), ("up", 4, 8, 6), ("down", 6, 8, 6)),
    ]
)


@pytest.mark.slow
def test_minimums_are_computed_as_the_graph_says_in_either_layout(tmp_path: Path) -> None:
    program = quantised("llama", LIFTED)
    wanted, results = run_program(program, tokens(24), PLAN), []
    for rows in BlockRows:
        lowered = lower(program, block_rows=rows)
        (tmp_path / "model.pte").write_bytes(lowered.artifact)
        results.append(run_artifact(tmp_path / "model.pte", tokens(24), PLAN).clone())
        encodings = {constant.encoding for constant in lowered.stored}
        assert encodings >= {"int2", "int3", "int4", "int5", "int6"} and lowered.delegation.delegates == 4
    errors = (results[0] - wanted).abs().amax(-1) / wanted.abs().max()
    assert float(errors.quantile(0.25)) <= TOLERANCE and float(errors.max()) <= STEP
    assert torch.equal(results[0], results[1]), "a layout changes the numbers"


@pytest.mark.long
def test_activations_in_float_are_groups_of_their_own() -> None:
    program = quantised(rules=IN_FLOAT, lm_head=FLOAT_EIGHT)
    found = groups(linear_regions(traced(program)))
    named = {product.matrix.name.split(".")[-2]: group.inputs for group in found for product in group.products}
    floats = dict.fromkeys(("k_proj", "v_proj", "up_proj", "down_proj", "lm_head"), "float32")
    assert named == {**floats, "q_proj": "int8", "o_proj": "int8", "gate_proj": "int8"}
    gated = groups(linear_regions(traced(quantised(default=FLOAT_FOUR))))
    assert {group.inputs for group in gated[:-1]} == {"float32"} and "silu" in {group.gate for group in gated}


ODD_WIDTH = (("*down_proj*", WeightScheme(3, 0, activation_bits=0)),)


@pytest.mark.long
@pytest.mark.parametrize(
    "rules",
    [pytest.param(IN_FLOAT, marks=pytest.mark.slow), pytest.param((), marks=pytest.mark.slow), ODD_WIDTH],
    ids=["some", "all", "a row that ends within a slice"],
)
def test_activations_in_float_are_computed_as_the_graph_says(rules: tuple[SchemeRule, ...], tmp_path: Path) -> None:
    mixed, inner = rules == IN_FLOAT, 44 if rules == ODD_WIDTH else 64
    program = quantised("llama", rules, FLOAT_EIGHT, FOUR if mixed else FLOAT_FOUR, intermediate_size=inner)
    wanted, results = run_program(program, tokens(24), PLAN), []
    for rows in BlockRows:
        artifact = tmp_path / f"{rows.name}.pte"
        artifact.write_bytes(lower(program, block_rows=rows).artifact)
        results.append(run_artifact(artifact, tokens(24), PLAN).clone())
    assert b" float32\nmatrix" in artifact.read_bytes()
    errors = (results[0] - wanted).abs().amax(-1) / wanted.abs().max()
    # Without a quantised token nothing is rounded but sums.
    assert float(errors.quantile(0.25)) <= TOLERANCE and float(errors.max()) <= (STEP if mixed else TOLERANCE)
    assert torch.equal(results[0], results[1]), "a layout changes the numbers"


@pytest.mark.long
def test_a_layer_that_no_kernel_multiplies_in_float_is_refused_by_name() -> None:
    program = quantised(rules=(("*o_proj*", WeightScheme(4, 32, activation_bits=0, scale_bits=32)),))
    with pytest.raises(InputError) as caught:
        lower(program, block_rows=BlockRows.X86)
    assert caught.value.code == "E579" and caught.value.where.startswith("model.layers.0.self_attn.o_proj.weight")
    assert "activation_bits = 8" in caught.value.fix


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["4bit", "in-float.toml"])
def test_any_number_of_threads_gives_the_same_bits(recipe: str, tmp_path: Path) -> None:
    """Matrices of a few hundred rows and 64 tokens are enough work for the kernels to wake the pool."""
    chosen: str | Path = recipe
    if recipe.endswith(".toml"):
        chosen = tmp_path / recipe
        chosen.write_text(RECIPE_IN_FLOAT)
    bundle = edgec.export("examples/tiny-stories", target="host", recipe=chosen, out=tmp_path / "x.edgec")
    model, before, results = EngineModel(bundle / "model.pte"), set_pool_threads(None), []
    calls = [(np.arange(1, 65), np.arange(64)), (np.array([5]), np.array([64]))]
    try:
        for threads in (1, 2, 3):
            assert set_pool_threads(threads) == threads
            session = model.session()
            rows = [session.run([tokens[None], at, np.array([len(at) - 1])])[0].copy() for tokens, at in calls]
            results.append(rows)
    finally:
        set_pool_threads(before)
    assert all(np.array_equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.long
def test_a_tied_table_lies_in_the_file_once(tmp_path: Path) -> None:
    lowered = lower(quantised("gemma3_text"), block_rows=BlockRows.X86)
    named = [constant.key for constant in lowered.stored if constant.encoding == "int8"]
    assert len(named) == 2 and len(set(named)) == 1
    artifact = tmp_path / "model.pte"
    artifact.write_bytes(lowered.artifact)
    delegates = [call for call in read_calls(artifact).values() if call.name == "EdgecLinear"]
    shapes = [constant.shape for call in delegates for constant in call.constants or ()]
    assert len(delegates) == 4 and (96, 32) in shapes and len(shapes) == 15
