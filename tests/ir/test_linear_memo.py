"""A linear layer is computed again exactly when something that it reads has changed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from edgec.exporter.parity.execution import run_program
from edgec.ir import graph_run
from edgec.ir.attributes import attribute
from edgec.ir.call_plan import call_plan
from edgec.ir.graph_run import LINEAR
from edgec.ir.linear_memo import LinearMemo
from edgec.ir.program import Program
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens

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
    graph = torch.fx.symbolic_trace(torch.nn.Linear(4, 3, bias=False))
    layer = next(node for node in graph.graph.nodes if node.op == "call_function")
    memo, x = LinearMemo(), torch.ones(2, 4)
    with torch.no_grad():
        first = memo.result(graph, layer, x, lambda: torch.ones(2, 3))
        first.view(-1).add_(1)
        assert torch.equal(memo.result(graph, layer, x, lambda: torch.ones(2, 3)), torch.ones(2, 3))


def test_results_that_are_not_kept_serve_once(program: Program, products: list[int]) -> None:
    memo = LinearMemo()
    run_program(program, tokens(), PLAN, memo)
    once, memo.keeps = len(products), False
    run_program(program, tokens(), PLAN, memo)
    assert len(products) == once and not memo._known
    run_program(program, tokens(), PLAN, memo)
    assert len(products) == 2 * once and not memo._known
