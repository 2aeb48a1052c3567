from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from edgec.exporter.capture.module import capture_module
from edgec.ir.graph_run import first_output
from edgec.ir.program import Interface, Program, State, held_bytes
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.ir.weight_scheme import WeightScheme
from edgec.passes.cleanup.fold_constants import FoldConstants
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.compress.quantize import Quantize
from edgec.passes.contract import nodes_of, run_pass
from tests.passes.decoders import captured, tokens

aten = torch.ops.aten


class _Holder(nn.Module):
    def __init__(
        self, body: Callable[[Any, Tensor], Tensor], rows: int = 256, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(rows, 64).to(dtype), requires_grad=False)
        self.register_buffer("cache", torch.zeros(256, 64))
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x)


X = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))


def _folded(module: nn.Module) -> tuple[Program, Program]:
    before = run_pass(capture_module(module.eval(), (X,)), RemoveNoops())
    return before, run_pass(before, FoldConstants())


def _value(program: Program) -> Tensor:
    return first_output(program.graph(X))


def test_a_cast_weight_becomes_a_buffer_and_frees_the_old_one() -> None:
    before, after = _folded(_Holder(lambda m, x: nn.functional.linear(x, m.weight.float()), dtype=torch.bfloat16))
    assert torch.equal(_value(before), _value(after))
    assert [name for name, _ in after.graph.named_buffers()] == ["weight_folded"]
    assert not list(after.graph.named_parameters())
    assert [n.target for n in after.graph.graph.nodes if n.op == "call_function"] == [aten.linear.default]


def test_a_chain_of_operators_is_evaluated_as_one() -> None:
    before, after = _folded(_Holder(lambda m, x: x @ (m.weight.t() * 2.0 + 1.0)))
    # the folded matrix lies in rows, not in columns: float32 sums of 64 terms near 30 in another order
    assert torch.allclose(_value(before), _value(after), rtol=0, atol=1e-4)
    assert [str(n.target) for n in after.graph.graph.nodes if n.op == "call_function"] == ["aten.matmul.default"]


def test_equal_subgraphs_are_stored_once() -> None:
    def twice(m: Any, x: Tensor) -> Tensor:
        return nn.functional.linear(x, m.weight.float()) + nn.functional.linear(-x, m.weight.float())

    before, after = _folded(_Holder(twice, dtype=torch.bfloat16))
    assert torch.equal(_value(before), _value(after))
    assert held_bytes(after.graph) == 256 * 64 * 4


def test_large_growth_is_left_alone() -> None:
    before, after = _folded(_Holder(lambda m, x: (m.weight.unsqueeze(0).expand(8, -1, -1) * 2).sum() + x))
    # the sum is 4 bytes and folds; what leads to it goes with it
    assert torch.equal(_value(before), _value(after))
    before, after = _folded(_Holder(lambda m, x: m.weight.repeat(8, 1) @ x.t()))
    assert held_bytes(after.graph) == held_bytes(before.graph)
    assert nodes_of(after.graph, aten.repeat.default)


def test_buffers_that_a_call_changes_are_not_constants() -> None:
    def read(m: Any, x: Tensor) -> Tensor:
        result: Tensor = x + m.cache.sum() + (m.cache * 2).mean()
        return result

    program = capture_module(_Holder(read).eval(), (X,))
    # Passes write states into graphs; a module that does so itself is refused.
    nodes = program.graph.graph
    cache = next(node for node in nodes.nodes if node.op == "get_attr" and "cache" in str(node.target))
    with nodes.inserting_after(cache):
        nodes.call_function(aten.add_.Tensor, (cache, 1.0))
    states = (State("cache", 0, "key", torch.float32, (256, 64), "full", 256),)
    marked = replace(program, interface=Interface(program.interface.inputs, program.interface.outputs, states))
    for given in (program, marked):
        after = run_pass(given, FoldConstants())
        assert nodes_of(after.graph, aten.mul.Tensor) and nodes_of(after.graph, aten.mean.default)


def test_integer_weights_are_not_turned_back_into_floats() -> None:
    quantized = run_pass(captured(), Quantize(default=WeightScheme(4, 32)))
    after = run_pass(quantized, FoldConstants())
    assert len(nodes_of(after.graph, DEQUANTIZE)) == len(nodes_of(quantized.graph, DEQUANTIZE))
    ids = torch.tensor([tokens(8)])
    inputs = (ids, torch.arange(8), torch.tensor([7]))
    assert torch.equal(after.graph(*inputs), quantized.graph(*inputs))


def test_random_numbers_are_drawn_in_every_call() -> None:
    _, after = _folded(_Holder(lambda m, x: x + torch.rand_like(m.weight).mean()))
    assert not torch.equal(_value(after), _value(after))


def test_folding_twice_changes_nothing() -> None:
    _, once = _folded(_Holder(lambda m, x: nn.functional.linear(x, m.weight.float()), dtype=torch.bfloat16))
    twice = run_pass(once, FoldConstants())
    assert [str(n) for n in twice.graph.graph.nodes] == [str(n) for n in once.graph.graph.nodes]


def test_a_part_of_a_weight_has_memory_that_holds_nothing_else() -> None:
    _, after = _folded(_Holder(lambda m, x: nn.functional.linear(x, m.weight[100:])))
    folded = dict(after.graph.named_buffers())["weight_folded"]
    assert folded.storage_offset() == 0 and folded.untyped_storage().nbytes() == 156 * 64 * 4


def test_strides_are_those_of_the_shape_after_a_permutation() -> None:
    _, after = _folded(_Holder(lambda m, x: x + m.weight.reshape(1, 1, 256, 64).permute(0, 2, 1, 3)[:, 0]))
    folded = dict(after.graph.named_buffers())["weight_folded"]
    assert folded.shape == (1, 1, 64) and folded.stride() == (64, 64, 1)
    _, after = _folded(_Holder(lambda m, x: x + m.weight.reshape(1, 1, 4, 64).permute(0, 2, 1, 3).sum(1), rows=4))
    assert dict(after.graph.named_buffers())["weight_folded"].stride() == (64, 64, 1)


def _buckets(m: Any, x: Tensor) -> Tensor:
    """Rows of a table by distance, as T5 adds them to its scores."""
    places = torch.arange(200)
    distance = (places[None, :] - places[:, None]).abs().clamp(max=255)
    return x.sum() + nn.functional.embedding(distance, m.weight)


def test_what_comes_from_ranges_is_computed_unless_a_converter_would_store_it() -> None:
    before = run_pass(capture_module(_Holder(_buckets).eval(), (X,)), RemoveNoops())
    assert nodes_of(run_pass(before, FoldConstants()).graph, aten.embedding.default)
    after = run_pass(before, FoldConstants(every=True))
    assert torch.equal(_value(before), _value(after))
    assert [n.target for n in after.graph.graph.nodes if n.op == "call_function"] == [aten.sum.default, aten.add.Tensor]
    assert {name: value.shape for name, value in after.graph.named_buffers()} == {"weight_folded": (200, 200, 64)}


def test_ranges_that_no_parameter_goes_into_have_one_table() -> None:
    def far(m: Any, x: Tensor) -> Tensor:
        return x + torch.arange(64) * 2 - (x * torch.arange(64) * 2).sum()

    before = run_pass(capture_module(_Holder(far).eval(), (X,)), RemoveNoops())
    after = run_pass(before, FoldConstants(every=True))
    assert torch.equal(_value(before), _value(after))
    assert "positions_folded" in dict(after.graph.named_buffers())
    assert not nodes_of(after.graph, aten.arange.default, aten.arange.start)


def test_a_tensor_of_one_value_is_not_stored() -> None:
    before = run_pass(capture_module(_Holder(lambda m, x: x * torch.full((64,), 3.0)).eval(), (X,)), RemoveNoops())
    after = run_pass(before, FoldConstants(every=True))
    assert nodes_of(after.graph, aten.full.default) and not list(after.graph.named_buffers())
    assert torch.equal(_value(before), _value(after))


def test_a_value_that_is_read_often_is_computed_once() -> None:
    def doubled(m: Any, x: Tensor) -> Tensor:
        value = m.weight
        for _ in range(40):
            value = value * 0.5 + value * 0.5
        result: Tensor = x @ value.t()
        return result

    before, after = _folded(_Holder(doubled))
    # halves are exact in float32, and so are their sums
    assert torch.allclose(_value(before), _value(after), rtol=0, atol=1e-4)
    assert [str(n.target) for n in after.graph.graph.nodes if n.op == "call_function"] == ["aten.matmul.default"]
