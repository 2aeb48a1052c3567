"""Walking a graph once for all calls gives the same as calling it once for each."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from edgec.exporter.capture.decoder import bind
from edgec.exporter.parity.execution import run_program
from edgec.ir import graph_run, stored_rows
from edgec.ir.attributes import attribute
from edgec.ir.call_plan import call_inputs, call_plan, last_rows
from edgec.ir.program import Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.compress.quantize_embedding import QuantizeEmbedding
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.kv.kv_cache import KvCache
from edgec.passes.kv.shared_kv import SharedKv
from tests.passes.decoders import CONTEXT, ROWS, captured, tokens

PLAN = call_plan(40, 12, ROWS)
EXPERTS_OF: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "num_attention_heads": 2}
WINDOWED: dict[str, Any] = {"family": "mistral", "sliding_window": 8}


def one_by_one(program: Program) -> torch.Tensor:
    calls = [call_inputs(program.interface, tokens(), call.start, call.size, last_rows(call)) for call in PLAN]
    with torch.no_grad():
        return torch.cat([program.graph(*call)[0] for call in calls])


def quantized(program: Program) -> Program:
    eight = WeightScheme(8, 0)
    return run_pass(run_pass(program, Quantize(default=WeightScheme(4, 32), lm_head=eight)), QuantizeEmbedding(8))


@pytest.mark.sweep(4)
@pytest.mark.long
@pytest.mark.parametrize("kernels", ["edgec", "standard"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("model", [{"family": "llama"}, WINDOWED], ids=["full", "ring"])
def test_one_walk_equals_call_by_call(model: dict[str, Any], dtype: str, kernels: str) -> None:
    program = run_pass(captured(**model), KvCache(CONTEXT, 12, dtype, kernels=kernels))
    # sums over 64 values in another order; a value on the edge between two 8-bit steps may fall on the other side
    tolerance = 1e-4 if dtype == "float32" else 0.05
    wanted = one_by_one(program)
    assert float((run_program(program, tokens(), PLAN) - wanted).abs().max()) < tolerance * float(wanted.abs().max())


@pytest.mark.long
def test_quantised_matrices_are_never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    program = quantized(run_pass(captured(), KvCache(CONTEXT, 12)))
    wanted = one_by_one(program)
    monkeypatch.setattr(stored_rows, "_BLOCK_VALUES", 32 * 10)
    seen: list[int] = []
    plain = torch.nn.functional.linear

    def watched(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        seen.append(weight.numel())
        return plain(x, weight, bias)

    monkeypatch.setattr(graph_run, "linear", watched)
    logits = run_program(program, tokens(), PLAN)
    assert max(seen) <= 32 * 10 and sum(seen) == sum(n.numel() for n in _matrices(program))
    # 8-bit activations may round one step apart where a sum came out in another order
    assert float((logits - wanted).abs().max()) < 0.05 * float(wanted.abs().max())


@pytest.mark.long
@pytest.mark.parametrize("form", ["as trained", "bfloat16", "4 bits"])
def test_experts_are_read_one_by_one_for_all_calls(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    program = captured("olmoe", **EXPERTS_OF)
    if form == "bfloat16":
        names = {name.removeprefix("decoder."): name for name, _ in program.graph.named_parameters()}
        bind(program.graph, names, _Half(program))
    program = run_pass(program, KvCache(CONTEXT, 12))
    if form == "4 bits":
        program = quantized(program)
    wanted, read = one_by_one(program), list[tuple[int, ...]]()

    def watched(graph: torch.fx.GraphModule, matrix: torch.fx.Node, expert: int) -> torch.Tensor:
        read.append((expert, *stored_rows.expert_of(graph, matrix, expert).shape))
        return stored_rows.expert_of(graph, matrix, expert)

    monkeypatch.setattr(graph_run, "expert_of", watched)
    logits = run_program(program, tokens(), PLAN)
    # 2 layers, 2 matrices each; 40 tokens choose every expert.
    assert sorted(read) == sorted([(i, *shape) for i in range(4) for shape in ((128, 32), (32, 64))] * 2)
    # 8-bit activations may round one step apart where a sum came out in another order
    tolerance = 0.05 if form == "4 bits" else 1e-4
    assert float((logits - wanted).abs().max()) < tolerance * float(wanted.abs().max())


def _matrices(program: Program) -> list[torch.Tensor]:
    """The integers that linear layers read."""
    return [b for name, b in program.graph.named_buffers() if name.endswith("_int") and "embedding" not in name]


@pytest.mark.long
def test_a_tied_bfloat16_table_is_read_by_rows() -> None:
    program = captured(tie_word_embeddings=True)
    bound = run_pass(program, RemoveNoops())
    bind(
        bound.graph,
        {name.removeprefix("decoder."): name for name, _ in program.graph.named_parameters()},
        _Half(program),
    )
    cached = run_pass(bound, KvCache(CONTEXT, 12))
    order = graph_run._order(cached)
    assert len([node for node in order.stored if node.target is torch.ops.aten.to.dtype]) > 0
    wanted = one_by_one(cached)
    assert torch.allclose(run_program(cached, tokens(), PLAN), wanted, atol=1e-4 * float(wanted.abs().max()))


class _Half:
    def __init__(self, program: Program) -> None:
        self.state = dict(program.graph.named_parameters())

    def tensor(self, name: str) -> torch.Tensor:
        return self.state[name].detach().to(torch.bfloat16)


@pytest.mark.long
def test_layers_that_share_a_ring_are_walked_call_by_call() -> None:
    shared = run_pass(captured(**WINDOWED), SharedKv(1))
    program = run_pass(shared, KvCache(CONTEXT, 12))
    assert not graph_run._order(program).may_overlap
    wanted = one_by_one(program)
    assert torch.allclose(run_program(program, tokens(), PLAN), wanted, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.long
def test_rows_of_integers_with_zero_points_are_dequantised_as_a_whole_matrix_is() -> None:
    program = quantized(run_pass(captured(), KvCache(CONTEXT, 12)))
    node = next(node for node in nodes_of(program.graph, DEQUANTIZE) if node.args[0].op == "get_attr")  # type: ignore[union-attr]
    zero = attribute(program.graph, str(node.args[3].target))  # type: ignore[union-attr]
    for value in (0, 3):
        zero.fill_(value)
        operands = torch.fx.map_arg(node.args, lambda source: attribute(program.graph, str(source.target)))
        assert torch.equal(stored_rows.rows_of(program.graph, node, slice(2, 9)), DEQUANTIZE(*operands)[2:9])
