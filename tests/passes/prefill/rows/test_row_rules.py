"""Selecting rows before an operator gives the same as selecting them after it, operator by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.passes.cleanup.remove_noops import RemoveNoops
from edgec.passes.contract import nodes_of, run_pass
from edgec.passes.prefill.prefill_skip import PrefillSkip

aten = torch.ops.aten
H = 8
MATRIX = torch.randn(6, H, generator=torch.Generator().manual_seed(0))
Function = Callable[[Tensor], Tensor]

# Each takes x [1, S, 8]; rows lie along dimension 1 of the result unless stated.
BY_ROWS: dict[str, Function] = {
    "pointwise": lambda x: torch.nn.functional.silu(x) * 2 + x.tanh(),
    "broadcast": lambda x: x * torch.arange(H) - x[..., :1],
    "linear": lambda x: torch.nn.functional.linear(x, MATRIX),
    "matmul": lambda x: x @ MATRIX.T,
    "matmul in batches": lambda x: (x.unsqueeze(2) @ x.unsqueeze(3)).flatten(2),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (H,)),
    "mean": lambda x: x - x.pow(2).mean(-1, keepdim=True),
    "amax": lambda x: x.amax(2),
    "std": lambda x: x / x.std(-1, keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "cast": lambda x: x.to(torch.int32).to(torch.float32),
    "heads": lambda x: x.view(1, x.shape[1], 2, -1).transpose(1, 2).mul(3).transpose(1, 2).reshape(1, x.shape[1], H),
    "permute": lambda x: x.view(1, x.shape[1], 2, 4).permute(0, 2, 1, 3).neg().permute(0, 2, 1, 3).reshape(1, -1, H),
    "without the batch": lambda x: x.view(-1, H).exp().unsqueeze(0),
    "slices": lambda x: torch.cat([-x[..., 4:], x[..., :4]], -1),
    "chunks": lambda x: torch.mul(*x.chunk(2, -1)),
    "splits": lambda x: torch.cat(x.split([3, 5], -1)[::-1], -1),
    "stack": lambda x: torch.stack([x, 2 * x]).select(0, 1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "expand": lambda x: x.unsqueeze(1).expand(1, 3, x.shape[1], H).select(1, 2),
    "tile": lambda x: x.repeat(2, 1, 3)[:1],
    "scatter": lambda x: torch.slice_scatter(x, x[..., :2] * 2, 2, 4, 6).select_scatter(x[..., 0], 2, 7),
    "composites": lambda x: torch.multiply(torch.subtract(x, 1), 3).divide(2).negative().absolute(),
    "repeat": lambda x: x.repeat_interleave(2, -1),
    "where": lambda x: torch.where(x > 0, x, torch.zeros(())),
    "embedding": lambda x: torch.nn.functional.embedding(x.abs().to(torch.int64).clamp(0, 5), MATRIX).flatten(2),
    "a reduction over all rows, broadcast": lambda x: x - x.mean(1, keepdim=True),
}
# What they compute must stay in front of the selection.
ACROSS_ROWS: dict[str, Function] = {
    "cumsum": lambda x: x.cumsum(1),
    "softmax": lambda x: x.softmax(1),
    "flip": lambda x: x.flip(1),
    "cat": lambda x: torch.cat([x, x], 1),
    "tile": lambda x: x.repeat(1, 2, 1),
    "scatter": lambda x: x.select_scatter(x[:, -1], 1, 0),
    "attention": lambda x: x @ x.transpose(1, 2) @ x,
    "mixed": lambda x: x.view(-1, 2, 4).permute(1, 0, 2).clone(memory_format=torch.contiguous_format).view(1, -1, H),
    "arange": lambda x: x * torch.arange(x.shape[1]).unsqueeze(1),
    "count": lambda x: x * x.shape[1],
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x.transpose(1, 2), (x.shape[1],)).transpose(1, 2),
}


class _Selecting(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, logit_index: Tensor) -> Tensor:
        return self.function(x).index_select(1, logit_index)


def program(function: Function) -> Program:
    interface = Interface(
        (
            TensorType("x", torch.float32, (1, Dynamic("S", 1, 32), H)),
            TensorType("logit_index", torch.int64, (Dynamic("K", 1, 8),)),
        ),
        (TensorType("y", torch.float32, (1, Dynamic("K", 1, 8), -1)),),
    )
    sizes = {"x": {1: torch.export.Dim("S", min=3, max=32)}, "logit_index": {0: torch.export.Dim("K", min=2, max=8)}}
    inputs = (torch.randn(1, 10, H), torch.arange(3))
    graph = torch.export.export(_Selecting(function), inputs, dynamic_shapes=sizes).module(check_guards=False)
    graph.graph.set_codegen(torch.fx.graph.CodeGen())
    return run_pass(Program(graph, interface), RemoveNoops())


def _value(program: Program, x: Tensor, rows: Tensor) -> Tensor:
    result = program.graph(x, rows)
    value: Tensor = result[0] if isinstance(result, (tuple, list)) else result
    return value


def _sources(program: Program) -> list[Any]:
    """What rows are selected from."""
    return [node.args[0] for node in nodes_of(program.graph, aten.index_select.default)]


def _same(before: Program, after: Program) -> None:
    for tokens, rows in ((11, [7, 0, 7]), (1, [0]), (5, [4])):
        x = torch.randn(1, tokens, H, generator=torch.Generator().manual_seed(tokens))
        # The same operations on the same numbers; a matrix product of fewer rows may sum in another order.
        torch.testing.assert_close(
            _value(after, x, torch.tensor(rows)), _value(before, x, torch.tensor(rows)), atol=1e-6, rtol=1e-5
        )


@pytest.mark.parametrize("name", BY_ROWS)
def test_the_selection_moves_in_front(name: str) -> None:
    before = program(BY_ROWS[name])
    after = run_pass(before, PrefillSkip())
    _same(before, after)
    # Nothing is left in front of it: it selects from the input.
    assert {node.target for node in _sources(after)} == {"x"}


@pytest.mark.parametrize("name", ACROSS_ROWS)
def test_the_selection_stays_behind_what_mixes_rows(name: str) -> None:
    before = program(ACROSS_ROWS[name])
    after = run_pass(before, PrefillSkip())
    _same(before, after)
    assert any(node.target != "x" for node in _sources(after))


def test_a_value_with_other_readers_is_selected_where_it_crosses() -> None:
    def twice(x: Tensor) -> Tensor:
        doubled = x * 2
        return torch.tanh(doubled) + torch.exp(doubled).cumsum(1)

    before = program(twice)
    after = run_pass(before, PrefillSkip())
    _same(before, after)
    assert sorted(str(node.target) for node in _sources(after)) == ["aten.cumsum.default", "aten.mul.Tensor"]
