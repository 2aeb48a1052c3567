"""Permute tensors of at most five dimensions, which is as many as Core ML has.

    x -> view [1,2,4,2,4,32] -> permute (0,1,3,2,4,5) -> view [4,16,32]
    ==>
    x -> reshape [2,4,2,128] -> permute (0,2,1,3)     -> reshape [4,16,32]

    x -> view [4,4,2,4,2,16] -> permute (0,2,4,1,3,5) -> flatten [16,4,4,16]
    ==>
    x -> reshape [4,4,2,128] -> permute (0,2,1,3)     -> reshape [8,16,2,16] -> permute (0,2,1,3) -> reshape [16,4,4,16]

Windows of Swin, SAM and Hiera are cut and joined in this way. Dimensions of one element are left out, and those that
stay neighbours become one; what has more than five all the same is permuted in steps, each of which moves one of them.
Legality: a permutation of fixed sizes with more than five dimensions, whose results are only laid out anew, copied or
taken apart along their first dimension; exact. Another stays, and the linter refuses it (E406). Measured on a tiny
random Swin and a Hiera for iPhone: tensors of rank 6 before, none after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_MOST = 5
_VIEWS = frozenset({aten.view.default, aten.reshape.default, aten._unsafe_view.default})
_LAID_OUT = frozenset({*_VIEWS, aten.flatten.using_ints})
_COPIES = frozenset({aten.clone.default, aten.contiguous.default})


@dataclass(frozen=True)
class MergeDimensions:
    """Permute fewer dimensions where a tensor has more than five; exact."""

    name: str = "merge_dimensions"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every graph."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every such permutation that can do with fewer dimensions."""
        for node in nodes_of(graph, aten.permute.default, aten.transpose.int):
            shape, order = _permutation(node)
            if shape and _only_laid_out(node):
                _rewrite(graph, node, shape, merged(shape, order))
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: a permutation of other dimensions stays for the linter."""


def _permutation(node: Node) -> tuple[list[int], list[int]]:
    """The sizes of the input and the order of its dimensions in the result; nothing where few or varying."""
    source, *rest = node.args
    shape = list(source.meta["val"].shape)  # type: ignore[union-attr]
    if len(shape) <= _MOST or not all(isinstance(size, int) for size in shape):
        return [], []
    order = list(range(len(shape)))
    if node.target is aten.permute.default:
        return shape, [int(dim) % len(shape) for dim in rest[0]]  # type: ignore[union-attr, arg-type]
    first, second = (int(dim) % len(shape) for dim in rest)  # type: ignore[arg-type]
    order[first], order[second] = second, first
    return shape, order


def merged(shape: Sequence[int], order: Sequence[int]) -> list[list[int]]:
    """The dimensions of the result of a permutation in groups that stay neighbours, without those of one element.

    Args:
        shape: of the input.
        order: which dimension of the input each of the result is.
    """
    kept = [dim for dim in range(len(shape)) if shape[dim] != 1]
    place = {dim: index for index, dim in enumerate(kept)}
    moved = [dim for dim in order if dim in place]
    groups = [[moved[0]]] if moved else []
    for before, dim in pairwise(moved):
        if place[dim] == place[before] + 1:
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return groups


def _only_laid_out(node: Node) -> bool:
    """Whether all that reads a value is a view of it or its parts, possibly of a copy."""
    return all(
        user.target in _LAID_OUT or _is_taken_apart(user) or (user.target in _COPIES and _only_laid_out(user))
        for user in node.users
    )


def _is_taken_apart(user: Node) -> bool:
    """Whether a node gives the parts of a value along its first dimension."""
    return user.target is aten.unbind.int and user.args[1:] in ((), (0,))


def _rewrite(graph: GraphModule, node: Node, shape: Sequence[int], groups: list[list[int]]) -> None:
    """Let views of the result read one of fewer dimensions instead."""
    source = node.args[0]
    assert isinstance(source, Node)
    laid_out = source.args[0] if source.target in _VIEWS else source
    assert isinstance(laid_out, Node)
    before = sorted(groups)
    sizes, order = [prod(shape[dim] for dim in group) for group in before], [before.index(group) for group in groups]
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        whole = len(sizes) <= _MOST
        turned = _turned(emit, laid_out, sizes, order) if whole else _turned_in_steps(emit, laid_out, sizes, order)
    _read_instead(graph, node, turned)


def _turned(emit: Emitter, laid_out: Node, sizes: list[int], order: list[int]) -> Node:
    return emit(aten.permute.default, emit(aten.reshape.default, laid_out, sizes), order)


def _turned_in_steps(emit: Emitter, laid_out: Node, sizes: list[int], order: list[int]) -> Node:
    """Move one dimension after the other to its place, over those that it belongs before."""
    present = list(range(len(sizes)))
    for place, wanted in enumerate(order):
        if (at := present.index(wanted)) != place:
            parts = (present[:place], present[place:at], [wanted], present[at + 1 :])
            blocks = [prod(sizes[dim] for dim in part) for part in parts]
            laid_out = _turned(emit, laid_out, blocks, [0, 2, 1, 3])
            present = [*parts[0], wanted, *parts[1], *parts[3]]
    return laid_out


def _read_instead(graph: GraphModule, node: Node, turned: Node) -> None:
    for user in list(node.users):
        if user.target in _COPIES:
            _read_instead(graph, user, turned)
        elif user.target in _LAID_OUT:
            with graph.graph.inserting_before(user):
                user.replace_all_uses_with(_laid_out(Emitter(graph.graph), turned, user))
        else:
            _take_apart(graph, user, turned)


def _laid_out(emit: Emitter, turned: Node, wanted: Node) -> Node:
    return emit(aten.reshape.default, turned, list(wanted.meta["val"].shape))


def _take_apart(graph: GraphModule, node: Node, turned: Node) -> None:
    """Read the parts of a value along its first dimension from one of fewer dimensions."""
    count = len(node.meta["val"])
    with graph.graph.inserting_before(node):
        rows = Emitter(graph.graph)(aten.reshape.default, turned, [count, -1])
    for part in list(node.users):
        with graph.graph.inserting_before(part):
            emit = Emitter(graph.graph)
            row = emit(aten.select.int, rows, 0, part.args[1])
            part.replace_all_uses_with(_laid_out(emit, row, part))
