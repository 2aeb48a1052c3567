"""In-place operators and what they become: same values, also through slices of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from edgec.exporter.parity.execution import run_program
from edgec.ir.call_plan import call_plan
from edgec.ir.program import Dynamic, Interface, Program, TensorType
from edgec.ir.reexport import reexport
from edgec.passes.contract import clean, clone, run_pass
from edgec.passes.graph.functional import make_functional, writes
from edgec.passes.kv.kv_cache import KvCache
from tests.families import FAMILIES, Family
from tests.passes.deep_decoders import CHUNK, CONTEXT, ROWS, captured, fused, tokens

H = 8
# Full and ring caches; the others take seconds each.
QUICK = ("llama", "gemma3_text")


def scaled(x: Tensor) -> Tensor:
    y = x + 1
    y.mul_(2)
    y += x
    return y


def through_a_slice(x: Tensor) -> Tensor:
    y = x * 2
    y[:, :, 2:4] += 1
    y[..., 0] = x[..., 1]
    return y.sum(-1)


def through_two_views(x: Tensor) -> Tensor:
    y = x * 2
    part = y[:, :, 2:6]
    part[..., 1].mul_(3)
    return torch.cat([part, y], -1)


def a_view_alone(x: Tensor) -> Tensor:
    return (x * 2).view(1, -1, 2, 4).mul_(3).flatten(2)


def read_before_and_after(x: Tensor) -> Tensor:
    y = x * 2
    before = y.exp()
    y.tanh_()
    return before + y


def shaped_in_place(x: Tensor) -> Tensor:
    y = (x * 2).unsqueeze_(1)
    part = y[..., 2:]
    energy = y.exp().squeeze_(1)
    part.squeeze_(1).transpose_(1, 2)
    return energy.sum(-1) + y.squeeze(1).sum(-1) + part.sum(1)


EXPRESSED = (scaled, through_a_slice, through_two_views, a_view_alone, read_before_and_after, shaped_in_place)


def another_view(x: Tensor) -> Tensor:
    y = x * 2
    other = y[..., 4:]
    y.mul_(3)
    return other + y[..., :4]


def through_a_transposition(x: Tensor) -> Tensor:
    y = x * 2
    y.transpose(1, 2).add_(1)
    return y


def through_chunks(x: Tensor) -> Tensor:
    y = x * 2
    y.chunk(2, -1)[0].add_(1)
    return y


def its_input(x: Tensor) -> Tensor:
    return x.mul_(2)


LEFT = (another_view, through_a_transposition, through_chunks, its_input)


class _Module(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def program(function: Callable[[Tensor], Tensor]) -> Program:
    size = Dynamic("S", 1, 32)
    interface = Interface((TensorType("x", torch.float32, (1, size, H)),), (TensorType("y", torch.float32, (1, size)),))
    shapes = {"x": {1: torch.export.Dim("S", min=2, max=32)}}
    graph = torch.export.export(_Module(function), (torch.randn(1, 10, H),), dynamic_shapes=shapes)
    return Program(graph.module(check_guards=False), interface)


def functional(before: Program) -> Program:
    graph = clone(before.graph)
    make_functional(graph)
    clean(graph)
    return replace(before, graph=graph)


def _nodes(program: Program) -> int:
    return len(program.graph.graph.nodes)


@pytest.mark.parametrize("function", [*EXPRESSED, *LEFT], ids=lambda function: function.__name__)
def test_values_stay_the_same(function: Callable[[Tensor], Tensor]) -> None:
    before = program(function)
    after = functional(before)
    x = torch.randn(1, 5, H)
    assert torch.equal(after.graph(x.clone()), function(x.clone()))
    assert writes(before.graph) and bool(writes(after.graph)) is (function in LEFT)
    assert _nodes(functional(after)) == _nodes(after)


@pytest.mark.long
@pytest.mark.parametrize(
    "family",
    [pytest.param(f, id=f.name, marks=[] if f.name in QUICK else [pytest.mark.slow]) for f in FAMILIES],
)
def test_decoders_become_functional(family: Family) -> None:
    before = captured(family)
    after = functional(before)
    assert not writes(after.graph)
    plan = call_plan(30, CHUNK, ROWS)
    assert torch.equal(run_program(before, tokens(30), plan), run_program(after, tokens(30), plan))


@pytest.mark.long
def test_writes_into_states_are_meant() -> None:
    program = run_pass(fused(captured(FAMILIES[0])), KvCache(CONTEXT, CHUNK))
    after = functional(program)
    assert not writes(program.graph) and _nodes(after) == _nodes(program)
    reexport(after.graph, after.interface)
