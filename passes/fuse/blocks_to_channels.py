"""Lay the values between two steps of a convolution over few channels beside each other, as channels.

    x [B, 1, 1532] -> conv1d(weight [O, 1, 512], stride 4)
    ==>
    x -> reshape [B, 1, 383, 4] -> permute -> [B, 4, 383] -> conv1d(weight [O, 4, 128])

CPU kernels multiply eight or more channels at a time: of one channel a convolution in 8 bits is eight times the work
that it needs. Legality: one group, no dilation, no padding along the dimension, fixed sizes, a weight that is a
parameter, few channels, and a kernel of several whole steps. Exact: the same products in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.fuse.convolution_to_linear import stored_weight
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.weight_edits import edit

aten = torch.ops.aten
# More fill the lanes of a kernel by themselves.
_MOST_CHANNELS = 4
_FIRST = 2


@dataclass(frozen=True)
class BlocksToChannels:
    """Turn blocks of a convolution's input into channels; exact."""

    name: str = "blocks_to_channels"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other convolutions are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite one convolution after the other, along one dimension each."""
        for node in nodes_of(graph, aten.conv1d.default, aten.conv2d.default):
            dim = _dimension(graph, node)
            if dim is not None:
                _rewrite(graph, node, dim)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No convolution is left that could be rewritten."""
        nodes = nodes_of(program.graph, aten.conv1d.default, aten.conv2d.default)
        assert all(_dimension(program.graph, node) is None for node in nodes)


def _dimension(graph: GraphModule, node: Node) -> int | None:
    """The dimension along which a convolution can be rewritten; None where there is none."""
    given: Any = node.args
    x, weight = given[0].meta["val"], stored_weight(graph, given[1])
    if weight is None or x.dim() != weight.dim() or weight.shape[1] > _MOST_CHANNELS:
        return None
    if weight.shape[1] != x.shape[1] or not all(isinstance(size, int) for size in x.shape):
        return None
    for dim in range(_FIRST, x.dim()):
        step, padding, dilation = (_along(given, place, dim, x.dim()) for place in (3, 4, 5))
        kernel = weight.shape[dim]
        if step > 1 and padding in (0, None) and dilation in (1, None) and kernel > step and kernel % step == 0:
            return dim
    return None


def _along(given: Any, place: int, dim: int, rank: int) -> Any:
    """An argument along a dimension; where it was left out, a step is 1, a padding 0, a dilation 1."""
    value = given[place] if len(given) > place else [int(place != 4)]
    return value[0] if len(value) == 1 or rank == 3 else value[dim - _FIRST]


def _rewrite(graph: GraphModule, node: Node, dim: int) -> None:
    given: Any = node.args
    source: Node = given[0]
    rank, kernel = source.meta["val"].dim(), int(given[1].meta["val"].shape[dim])
    step = _along(given, 3, dim, rank)
    length = (int(node.meta["val"].shape[dim]) - 1) * step + kernel
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        taken = source if length == source.meta["val"].shape[dim] else emit(aten.slice.Tensor, source, dim, 0, length)
        shape, order, merged = _blocks([*taken.meta["val"].shape], dim, step)
        blocks = emit(aten.permute.default, emit(aten.reshape.default, taken, shape), order)
        node.update_arg(0, emit(aten.reshape.default, blocks, merged))
    node.update_arg(3, [1 if at == dim else _along(given, 3, at, rank) for at in range(_FIRST, rank)])
    edit(graph, node, 1, lambda weight: _as_channels(weight, dim, step))


def _as_channels(weight: Tensor, dim: int, step: int) -> Tensor:
    shape, order, merged = _blocks([*weight.shape], dim, step)
    return weight.reshape(shape).permute(order).reshape(merged)


def _blocks(shape: list[int], dim: int, step: int) -> tuple[list[int], list[int], list[int]]:
    """The shape with blocks apart, the order that puts their places behind the channels, and the shape after both."""
    count = shape[dim] // step
    apart = [*shape[:dim], count, step, *shape[dim + 1 :]]
    order = [0, 1, dim + 1, *(at for at in range(_FIRST, len(apart)) if at != dim + 1)]
    merged = [shape[0], shape[1] * step, *shape[_FIRST:dim], count, *shape[dim + 1 :]]
    return apart, order, merged
