"""Compute in the layout [1, S, C] what model code computes between two transpositions.

    x -> transpose -> chunk -> mul -> transpose -> causal_conv -> transpose -> mul -> transpose -> linear
    ==>
    x -> chunk -> mul -> causal_conv -> mul -> linear

Convolutions of transformers want channels first, edgec's operators and matrices want them last. A product of a matrix
with a transposed value (Mamba's ``dt_proj``) becomes a linear layer, which can be rounded. Legality: every operator
between works value by value, or cuts along one of the two dimensions; exact. Measured on 3 layers of LFM2, 1 of them
attention: 8 transpositions of hidden states before, none after.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_RANK = 3
_POINTWISE = frozenset(
    {
        *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.neg.default, aten.exp.default),
        *(aten.silu.default, aten.sigmoid.default, aten.tanh.default, aten.gelu.default, aten.relu.default),
        *(aten.softplus.default, aten.to.dtype, aten.clone.default, aten.contiguous.default),
    }
)
# Operators that cut along the dimension of their third argument.
_CUTS = frozenset({aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default})


@dataclass(frozen=True)
class SinkTransposes:
    """Remove pairs of transpositions around operators that work value by value; exact."""

    name: str = "sink_transposes"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every graph."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each transposition whose value can be had without it."""
        turned = _Turned(graph)
        for node in nodes_of(graph, aten.transpose.int):
            source: Any = node.args[0]
            if _turns(node) and turned.possible(source):
                with graph.graph.inserting_before(node):
                    node.replace_all_uses_with(turned.value(source))
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: no graph is illegal afterwards."""


def _turns(node: Node) -> bool:
    """Whether a node exchanges the last two dimensions of a value of rank 3."""
    value = node.meta.get("val")
    if node.target is not aten.transpose.int or not isinstance(value, torch.Tensor) or value.dim() != _RANK:
        return False
    return {int(dim) % _RANK for dim in node.args[1:]} == {1, 2}  # type: ignore[arg-type]


@dataclass
class _Turned:
    """Values with their last two dimensions exchanged, computed without a transposition."""

    graph: GraphModule
    made: dict[Node, Node] = field(default_factory=dict)
    known: dict[Node, bool] = field(default_factory=dict)

    def possible(self, node: Node) -> bool:
        """Whether the value can be computed from what was transposed to make it."""
        if node not in self.known:
            sources = self._sources(node)
            self.known[node] = _turns(node) or (bool(sources) and all(map(self.possible, sources)))
        return self.known[node]

    def _sources(self, node: Node) -> list[Node]:
        """The operands to turn, none for a node that cannot be turned."""
        if node.target in _POINTWISE:
            operands = node.all_input_nodes
            return operands if all(_shape(each) == _shape(node) for each in operands) else []
        if node.target in _CUTS or node.target is operator.getitem or _multiplies(node):
            return [node.all_input_nodes[-1]]
        return []

    def value(self, node: Node) -> Node:
        """The turned value."""
        if _turns(node):
            return node.args[0]  # type: ignore[return-value]
        if node not in self.made:
            self.made[node] = self._make(node)
        return self.made[node]

    def _make(self, node: Node) -> Node:
        sources = {source: self.value(source) for source in self._sources(node)}
        with self.graph.graph.inserting_before(node):
            emit = Emitter(self.graph.graph)
            if _multiplies(node):
                return emit(aten.linear.default, sources[node.args[1]], node.args[0])  # type: ignore[index]
            arguments = [sources.get(each, each) if isinstance(each, Node) else each for each in node.args]
            if node.target in _CUTS:
                given = int(node.args[2]) if len(node.args) > 2 else 0  # type: ignore[arg-type]
                arguments = [*arguments[:2], _RANK - given % _RANK if given % _RANK else 0]
            return emit(node.target, *arguments, **node.kwargs)


def _shape(node: Node) -> tuple[Any, ...] | None:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _multiplies(node: Node) -> bool:
    """Whether a node multiplies a matrix of the model with a value of rank 3."""
    if node.target is not aten.matmul.default:
        return False
    matrix, value = (_shape(each) for each in node.args)  # type: ignore[arg-type]
    return matrix is not None and len(matrix) == 2 and value is not None and len(value) == _RANK
