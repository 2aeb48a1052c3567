"""Permute tensors of at most five dimensions, which is as many as Core ML has.

    x -> view [1,2,4,2,4,32] -> permute (0,1,3,2,4,5) -> view [4,16,32]
    ==>
    x -> reshape [2,4,2,128] -> permute (0,2,1,3)     -> reshape [4,16,32]

Windows of Swin and SAM are cut and joined in this way. Dimensions of one element are left out, and those that stay
neighbours become one. Legality: a permutation of fixed sizes with more than five dimensions, whose results are only
laid out anew or copied; exact. One that has more than five all the same stays, and the linter refuses it (E406).
Measured on a tiny random Swin for iPhone: tensors of rank 6 before, none after.
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
            groups = merged(shape, order)
            if len(shape) > _MOST >= len(groups) and _only_laid_out(node):
                _rewrite(graph, node, shape, groups)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: a permutation of other dimensions stays for the linter."""


def _permutation(node: Node) -> tuple[list[int], list[int]]:
    """The sizes of the input and the order of its dimensions in the result; nothing where a size varies."""
    source, *rest = node.args
    shape = list(source.meta["val"].shape)  # type: ignore[union-attr]
    if not all(isinstance(size, int) for size in shape):
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
    """Whether all that reads a value is a view of it, possibly of a copy."""
    return all(user.target in _VIEWS or (user.target in _COPIES and _only_laid_out(user)) for user in node.users)


def _rewrite(graph: GraphModule, node: Node, shape: Sequence[int], groups: list[list[int]]) -> None:
    """Let views of the result read one of fewer dimensions instead."""
    source = node.args[0]
    assert isinstance(source, Node)
    laid_out = source.args[0] if source.target in _VIEWS else source
    before = sorted(groups)
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        fewer = emit(aten.reshape.default, laid_out, [prod(shape[dim] for dim in group) for group in before])
        turned = emit(aten.permute.default, fewer, [before.index(group) for group in groups])
    _read_instead(graph, node, turned)


def _read_instead(graph: GraphModule, node: Node, turned: Node) -> None:
    for user in list(node.users):
        if user.target in _COPIES:
            _read_instead(graph, user, turned)
        else:
            with graph.graph.inserting_before(user):
                user.replace_all_uses_with(Emitter(graph.graph)(aten.reshape.default, turned, user.args[1]))
