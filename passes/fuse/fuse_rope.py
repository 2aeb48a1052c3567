"""Fuse rotary position embedding into one operator, in the layout that the cache needs.

    x [1,H,S,D] -> x*cos + cat(-x[D/2:], x[:D/2])*sin                 ==>      transpose -> edgec::rope -> transpose
    cat(rotated part, the rest)                                        ==>      (the operator passes the rest through)

Su et al. 2021, arXiv 2104.09864, in transformers' ``rotate_half`` form. Legality: both products take the same
value, halves are swapped with the first one negated, cos and sin are broadcast over heads. Transpositions that meet
their inverse vanish with it. Exact. Measured on 2 layers of Llama: 28 operators fewer, and no head is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch.fx import GraphModule, Node

from edgec.ir.operators import ROPE
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import erase_unread, nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


@dataclass(frozen=True)
class FuseRope:
    """Rewrite the pattern to ``edgec::rope``; exact."""

    name: str = "fuse_rope"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: a rotation that does not match stays as it is."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite every match."""
        for node in nodes_of(graph, aten.add.Tensor):
            rope = _match(node)
            if rope is not None:
                _fuse(graph, rope)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: models without rotary embedding are legal."""


@dataclass(frozen=True)
class _Rope:
    """``x`` [1,H,S,D] whose first entries are rotated by ``cos`` and ``sin`` [1,S,R]."""

    x: Node
    cos: Node
    sin: Node
    result: Node


def _match(add: Node) -> _Rope | None:
    products = [a for a in add.args if isinstance(a, Node) and a.target is aten.mul.Tensor]
    for plain, rotated in (products, products[::-1]) if len(products) == 2 else ():
        half = next((n for n in rotated.all_input_nodes if n.target is aten.cat.default), None)
        source = _rotate_half_source(half) if half is not None else None
        if source is not None and source in plain.args:
            cos, sin = _table(_other(plain, source)), _table(_other(rotated, half))
            if cos is not None and sin is not None:
                return _with_rest(source, cos, sin, add)
    return None


def _other(product: Node, factor: Node | None) -> object:
    return product.args[0] if product.args[1] is factor else product.args[1]


def _rotate_half_source(cat: Node) -> Any:
    """The x of ``rotate_half(x)``, which is ``cat([-x[.., D/2:], x[.., :D/2]], -1)``; None for another form."""
    parts: Any = cat.args[0]
    if not isinstance(parts, (list, tuple)) or len(parts) != 2 or cat.args[1:] not in {(-1,), (3,)}:
        return None
    negated, first = parts
    if not isinstance(negated, Node) or negated.target is not aten.neg.default or not _is_slice(first):
        return None
    second = negated.args[0]
    if not _is_slice(second) or second.args[0] is not first.args[0]:
        return None
    x: Any = first.args[0]
    half = x.meta["val"].shape[-1] // 2
    ranges = [_range(first), _range(second)]
    return x if ranges == [(0, half), (half, 2 * half)] and x.meta["val"].dim() == 4 else None


def _is_slice(node: object) -> TypeGuard[Node]:
    return isinstance(node, Node) and node.target is aten.slice.Tensor


def _cut(piece: object, whole: Node) -> tuple[int, int] | None:
    return _range(piece) if _is_slice(piece) and piece.args[0] is whole else None


def _range(piece: Node) -> tuple[int, int] | None:
    """The bounds of a slice of the last dimension; None for another dimension."""
    given: Any = piece.args
    source, dim, start, end = (*given, *(0, 0, 1 << 62)[len(given) - 1 :])[:4]
    size = int(source.meta["val"].shape[-1])
    return (int(start), min(int(end), size)) if dim in (3, -1) else None


def _table(factor: object) -> Node | None:
    """The [1, S, R] table of ``unsqueeze(table, 1)``; None for another form."""
    if not isinstance(factor, Node) or factor.target is not aten.unsqueeze.default or factor.args[1] != 1:
        return None
    table = factor.args[0]
    return table if isinstance(table, Node) and table.meta["val"].dim() == 3 else None


def _with_rest(source: Node, cos: Node, sin: Node, add: Node) -> _Rope:
    """Include the rest where only the first part is rotated: ``cat([rope(x[.., :R]), x[.., R:]], -1)``."""
    user = next(iter(add.users)) if len(add.users) == 1 else None
    if user is not None and user.target is aten.cat.default and _is_slice(source):
        parts: Any = user.args[0]
        whole: Any = source.args[0]
        rest: Any = parts[1] if isinstance(parts, (list, tuple)) and len(parts) == 2 and parts[0] is add else None
        width = int(source.meta["val"].shape[-1])
        size = int(whole.meta["val"].shape[-1])
        if _cut(rest, whole) == (width, size) and _cut(source, whole) == (0, width):
            return _Rope(whole, cos, sin, user)
    return _Rope(source, cos, sin, add)


def _fuse(graph: GraphModule, rope: _Rope) -> None:
    with graph.graph.inserting_before(rope.result):
        emit = Emitter(graph.graph)
        rows = swap_axes(emit, rope.x)
        result = emit(aten.transpose.int, emit(ROPE, rows, rope.cos, rope.sin), 1, 2)
    rope.result.replace_all_uses_with(result)
    erase_unread(rope.result)


def swap_axes(emit: Emitter, x: Node) -> Node:
    """``transpose(x, 1, 2)``, or what ``x`` was transposed from."""
    if x.target is aten.transpose.int and set(x.args[1:]) == {1, 2}:
        return x.args[0]  # type: ignore[return-value]
    return emit(aten.transpose.int, x, 1, 2)
