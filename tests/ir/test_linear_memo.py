"""A linear layer is computed again exactly when something that it reads has changed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from copy import deepcopy
from weakref import ref

import pytest
import torch
from torch import Tensor

from edgec.exporter.capture.decoder import build_skeleton, capture_decoder
from edgec.exporter.parity.execution import run_eager, run_program
from edgec.exporter.sources.decoders.spec import model_spec
from edgec.ir import graph_run
from edgec.ir.attributes import attribute
from edgec.ir.call_plan import call_plan
from edgec.ir.graph_run import LINEAR
from edgec.ir.linear_memo import LinearMemo, LinearWeights
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import CONTEXT, ROWS, StateDict, captured, tiny_model, tokens

CAST = torch.ops.aten.to.dtype
PLAN = call_plan(40, 12, ROWS)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of products of matrices so far, as one entry each."""
    made: list[int] = []
    plain = torch.nn.functional.linear

    def counted(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        made.append(weight.numel())
        return plain(x, weight, bias)

    monkeypatch.setattr(graph_run, "linear", counted)
    yield made


@pytest.fixture
def program() -> Program:
    cached = run_pass(captured(), KvCache(CONTEXT, 12))
    return run_pass(cached, Quantize(default=WeightScheme(4, 32), lm_head=WeightScheme(8, 0)))


@pytest.mark.long
def test_the_same_computation_is_done_once(program: Program, products: list[int]) -> None:
    memo = LinearMemo()
    first = run_program(program, tokens(), PLAN, memo)
    once = len(products)
    folded = run_pass(program, FoldConstants())
    assert torch.equal(run_program(folded, tokens(), PLAN, memo), first)
    assert once == len(nodes_of(program.graph, LINEAR)) and len(products) == once
    assert torch.equal(run_program(program, tokens(), PLAN), first) and len(products) == 2 * once


def test_other_inputs_are_computed(program: Program) -> None:
    memo = LinearMemo()
    run_program(program, tokens(), PLAN, memo)
    others = [token ^ 1 for token in tokens()]
    assert torch.equal(run_program(program, others, PLAN, memo), run_program(program, others, PLAN))


def test_another_tensor_in_the_place_of_a_weight_is_read(program: Program) -> None:
    memo = LinearMemo()
    before = run_program(program, tokens(), PLAN, memo)
    name = next(name for name, _ in program.graph.named_buffers() if name.endswith("_scale"))
    owner, _, leaf = name.rpartition(".")
    setattr(program.graph.get_submodule(owner), leaf, 2 * attribute(program.graph, name))
    changed = run_program(program, tokens(), PLAN, memo)
    assert not torch.equal(changed, before) and torch.equal(changed, run_program(program, tokens(), PLAN))


def test_a_result_that_somebody_wrote_to_is_computed_again() -> None:
    memo, x, weights = LinearMemo(), torch.ones(2, 4), LinearWeights.plain(torch.ones(3, 4))
    with torch.no_grad():
        with memo.run():
            memo.result(weights, x, lambda: torch.ones(2, 3)).view(-1).add_(1)
        with memo.run():
            assert torch.equal(memo.result(weights, x, lambda: torch.ones(2, 3)), torch.ones(2, 3))


def test_a_weight_that_somebody_wrote_to_is_read_again() -> None:
    memo, inputs, weight = LinearMemo(), torch.ones(1, 2), torch.ones(2, 2)

    def product() -> Tensor:
        with memo.run():
            return memo.result(LinearWeights.plain(weight), inputs, lambda: inputs @ weight.T)

    assert product().tolist() == [[2.0, 2.0]]
    weight.mul_(3)
    assert product().tolist() == [[6.0, 6.0]]


def test_what_a_run_does_not_read_is_let_go() -> None:
    memo, weight = LinearMemo(), torch.ones(3, 4)
    with memo.run():
        memo.result(LinearWeights.plain(weight), torch.ones(2, 4), lambda: torch.ones(2, 3))
    assert memo._last
    with memo.run():
        pass
    assert not memo._last


def test_a_run_that_fails_leaves_nothing() -> None:
    memo = LinearMemo()
    with pytest.raises(KeyError), memo.run():
        memo.result(LinearWeights.plain(torch.ones(3, 4)), torch.ones(2, 4), lambda: torch.ones(2, 3))
        raise KeyError
    assert not memo._last and not memo._present


@pytest.mark.long
def test_the_captured_graph_takes_the_products_of_the_model_itself(products: list[int]) -> None:
    model = deepcopy(tiny_model())
    for parameter in (each for each in model.parameters() if each.dim() > 1):
        parameter.data = parameter.data.bfloat16()
    skeleton = build_skeleton(lambda: type(model)._from_config(model.config, attn_implementation="edgec"))
    program = capture_decoder(skeleton, model_spec(model.config.to_dict()), StateDict(model), CONTEXT)
    memo = LinearMemo()
    run_eager(model, tokens(), PLAN, memo)
    wanted = run_program(program, tokens(), PLAN)
    alone = len(products)
    assert torch.equal(run_program(program, tokens(), PLAN, memo), wanted)
    # Only the lm_head is computed again: the graph computes it for all positions, the model for those compared.
    assert len(products) - alone == 1


def test_a_stored_matrix_and_its_cast_in_a_graph_are_the_same() -> None:
    layer = torch.nn.Linear(4, 3).to(torch.bfloat16).requires_grad_(False)
    graph = torch.fx.Graph()
    cast = [graph.call_function(CAST, (graph.get_attr(name), torch.float32)) for name in ("weight", "bias")]
    linear = graph.call_function(LINEAR, (graph.placeholder("x"), *cast))
    graph.output(linear)
    found = graph_run._weights_of(torch.fx.GraphModule(layer, graph), linear)
    assert found.key == LinearWeights.plain(layer.weight, layer.bias).key
    assert found.key != LinearWeights.plain(layer.weight).key


def test_results_that_are_not_kept_serve_once(program: Program, products: list[int]) -> None:
    memo = LinearMemo()
    run_program(program, tokens(), PLAN, memo)
    once, memo.keeps = len(products), False
    run_program(program, tokens(), PLAN, memo)
    assert len(products) == once and not memo._last
    run_program(program, tokens(), PLAN, memo)
    assert len(products) == 2 * once and not memo._last


def test_a_weight_is_freed_with_its_last_reader_although_nothing_is_collected(program: Program) -> None:
    memo = LinearMemo()
    run_program(program, tokens(), PLAN, memo)
    memo.keeps = False
    gc.disable()
    try:
        run_program(program, tokens(), PLAN, memo)
        name = next(name for name, _ in program.graph.named_buffers() if name.endswith("_int"))
        owner, _, leaf = name.rpartition(".")
        watched = ref(attribute(program.graph, name))
        assert watched() is not None
        delattr(program.graph.get_submodule(owner), leaf)
        assert watched() is None
    finally:
        gc.enable()
