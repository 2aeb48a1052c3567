from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from edgec.ir.program import Interface, Program, TensorType
from edgec.passes.contract import run_pass
from edgec.passes.static.merge_dimensions import MergeDimensions, merged

aten = torch.ops.aten
# Swin and SAM cut images into windows and join them again: batch, rows, row in a window, columns, column, channels.
WINDOWS = [1, 2, 4, 2, 4, 3]
CUT = [0, 1, 3, 2, 4, 5]


class Windows(nn.Module):
    def __init__(self, shape: list[int], order: list[int], copied: bool = True) -> None:
        super().__init__()
        self.shape, self.order, self.copied = shape, order, copied

    def forward(self, x: Tensor) -> Tensor:
        turned = x.view(self.shape).permute(self.order)
        return turned.contiguous().view(-1) if self.copied else turned


def program_of(module: nn.Module, *inputs: Tensor) -> Program:
    graph = torch.export.export(module, inputs).module(check_guards=False)
    types = tuple(TensorType(f"x{i}", x.dtype, tuple(x.shape)) for i, x in enumerate(inputs))
    return Program(torch.fx.GraphModule(graph, graph.graph), Interface(types, ()))


def ranks(program: Program) -> list[int]:
    values = [node.meta["val"] for node in program.graph.graph.nodes if node.op == "call_function"]
    return [value.dim() for value in values if isinstance(value, Tensor)]


def test_windows_are_cut_in_fewer_dimensions() -> None:
    x = torch.randn(1, 8, 8, 3)
    program = program_of(Windows(WINDOWS, CUT), x)
    assert max(ranks(program)) == 6
    fewer = run_pass(program, MergeDimensions())
    assert max(ranks(fewer)) == 4
    assert torch.equal(fewer.graph(x), program.graph(x))


def test_dimensions_that_no_view_joins_stay() -> None:
    program = program_of(Windows(WINDOWS, CUT, copied=False), torch.randn(1, 8, 8, 3))
    assert max(ranks(run_pass(program, MergeDimensions()))) == 6


class Heads(nn.Module):
    """Queries, keys and values of windows, as Hiera takes a projection apart."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v = x.view(2, 5, 4, 3, 2, 6).permute(3, 0, 4, 2, 1, 5).unbind(0)
        return q + k, v.flatten(0, 2)


@pytest.mark.parametrize(
    ("model", "x"),
    [
        # Hiera's windows of windows: two of the dimensions move, and none stays beside its neighbour.
        (Windows([4, 4, 2, 4, 2, 16], [0, 2, 4, 1, 3, 5]), (4, 8, 8, 16)),
        (Windows([2, 3, 2, 3, 2, 3, 2], [5, 4, 3, 6, 2, 1, 0]), (432,)),
        (Heads(), (2, 20, 36)),
    ],
)
def test_what_has_more_than_five_dimensions_all_the_same_is_permuted_in_steps(
    model: nn.Module, x: tuple[int, ...]
) -> None:
    given = torch.randn(x)
    program = program_of(model, given)
    fewer = run_pass(program, MergeDimensions())
    assert max(ranks(program)) > 5 and max(ranks(fewer)) <= 5
    torch.testing.assert_close(fewer.graph(given), program.graph(given), rtol=0, atol=0)


@given(st.lists(st.integers(1, 3), min_size=6, max_size=7), st.randoms())
def test_any_permutation_of_merged_dimensions_gives_the_same_values(shape: list[int], random: object) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    x = torch.arange(prod(shape)).reshape(shape)
    groups = merged(shape, order)
    before = sorted(groups)
    fewer = x.reshape([prod(shape[dim] for dim in group) for group in before])
    turned = fewer.permute([before.index(group) for group in groups])
    assert torch.equal(turned.reshape(-1), x.permute(order).reshape(-1))
