"""Compute tensors of six dimensions without the first, where it has one element: Core ML has five.

    x -> view [1,12,2,3,4,2] -> * y [1,12,1,1,1,2]  -> select(3, 0)                             [1,12,2,4,2]
    ==>
    x -> reshape [12,2,3,4,2] -> * reshape(y) [...]  -> select(2, 0) -> reshape [1,12,2,4,2]

Detectors with deformable attention (RT-DETR) place the points that they look at in this way: image, query, head, level,
point, coordinate; Hiera takes the largest query of each unit so. Legality: views, slices, expansions, largest values
and arithmetic element by element, of fixed sizes; exact. What another operator reads stays, and the linter refuses it
(E406). Measured on a tiny random RT-DETR and a Hiera for iPhone: refused for rank 6 before, converted after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_RANK = 6
_LAID_OUT = frozenset({aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default})
_BY_ELEMENT = frozenset(
    {
        *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.add.Scalar, aten.sub.Scalar),
        *(aten.mul.Scalar, aten.div.Scalar, aten.rsub.Scalar, aten.neg.default, aten.to.dtype, aten.clone.default),
        *(aten.contiguous.default, aten.sigmoid.default, aten.tanh.default, aten.exp.default),
    }
)
_OF_DIMENSION = frozenset({aten.slice.Tensor, aten.select.int})


@dataclass(frozen=True)
class FiveDimensions:
    """Leave the first of six dimensions out; exact."""

    name: str = "five_dimensions"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every graph."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Compute such tensors beside the old ones, and let what has fewer dimensions be computed from them."""
        shorter = _Shorter(graph)
        for node in list(graph.graph.nodes):
            if node.op == "call_function":
                shorter.take(node)
        graph.graph.eliminate_dead_code()
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: what another operator reads stays for the linter."""


@dataclass
class _Shorter:
    """The tensors of six dimensions that are known without their first."""

    graph: GraphModule
    known: dict[Node, Node] = field(default_factory=dict)

    def take(self, node: Node) -> None:
        """Emit a node again where it has six dimensions, or reads what had six; one of several outputs stays."""
        if not isinstance(node.meta.get("val"), Tensor):
            return
        long = _is_long(node)
        if not long and not any(source in self.known for source in _read(node)):
            return
        with self.graph.graph.inserting_before(node):
            emit = Emitter(self.graph.graph)
            made = self._largest(emit, node) if _is_largest(node) else self._emitted(emit, node)
        if made is not None and long:
            self.known[node] = made
        elif made is not None:
            node.replace_all_uses_with(made)

    def _emitted(self, emit: Emitter, node: Node) -> Node | None:
        """The node without its first dimension; one of fewer dimensions in its own shape; None where not legal."""
        shape = list(node.meta["val"].shape)
        long = _is_long(node)
        wanted = shape[1:] if long else shape
        args: Any = map_arg(node.args, lambda source: self.known.get(source, source))
        if node.target in _LAID_OUT:
            return emit(aten.reshape.default, args[0], wanted)
        if any(_is_long(source) for source in args if isinstance(source, Node)):
            return None
        if node.target in _BY_ELEMENT and long:
            return emit(node.target, *args, **node.kwargs)
        if node.target is aten.expand.default and node.args[0] in self.known and long:
            return emit(aten.expand.default, args[0], wanted)
        if node.target in _OF_DIMENSION and node.args[0] in self.known and (dim := int(args[1]) % _RANK):
            made = emit(node.target, args[0], dim - 1, *args[2:])
            return made if long else emit(aten.reshape.default, made, wanted)
        return None

    def _largest(self, emit: Emitter, node: Node) -> Node | None:
        """The values of ``max.dim`` over another dimension than the first."""
        source, dim, *kept = _pair(node).args
        shape = list(node.meta["val"].shape)
        if source not in self.known or kept not in ([], [False]) or not int(dim) % _RANK:  # type: ignore[arg-type]
            return None
        made = emit(aten.amax.default, self.known[source], [int(dim) % _RANK - 1])  # type: ignore[index, arg-type]
        return emit(aten.reshape.default, made, shape)


def _read(node: Node) -> list[Node]:
    """What a node reads; of one of two outputs what both are computed of."""
    return (_pair(node) if _is_largest(node) else node).all_input_nodes


def _is_largest(node: Node) -> bool:
    """Whether it is the first output of ``max.dim``, the values."""
    return node.target is getitem and node.args[1:] == (0,) and _pair(node).target is aten.max.dim


def _pair(node: Node) -> Node:
    """The operator of two outputs that a node takes one of."""
    source = node.args[0]
    assert isinstance(source, Node)
    return source


def _is_long(node: Node) -> bool:
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or not all(isinstance(size, int) for size in value.shape):
        return False
    return value.dim() == _RANK and value.shape[0] == 1
