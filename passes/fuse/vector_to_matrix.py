"""Linear layers whose weight is a vector, with a matrix of one row.

    x [..., I], w [I] -> linear [...]      ==>      x -> linear(w -> unsqueeze [1, I]) [..., 1] -> squeeze

torch takes a vector there: D-FINE writes the mean over the bins of a distribution so. XNNPACK's partitioner takes the
layer too, and its runtime then fails on it. Legality: the layer has no bias; exact. Measured on a tiny random D-FINE:
its artifact, which ended in E157, is executed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


@dataclass(frozen=True)
class VectorToMatrix:
    """Give each vector that a linear layer multiplies by a dimension of one output; exact."""

    name: str = "vector_to_matrix"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other layers are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite each layer with a vector."""
        for node in _with_vectors(graph):
            x, weight = node.args
            with graph.graph.inserting_before(node):
                emit = Emitter(graph.graph)
                products = emit(aten.linear.default, x, emit(aten.unsqueeze.default, weight, 0))
                node.replace_all_uses_with(emit(aten.squeeze.dim, products, -1))
            graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """Check that no layer multiplies by a vector."""
        assert not _with_vectors(program.graph)


def _with_vectors(graph: GraphModule) -> list[Node]:
    layers = nodes_of(graph, aten.linear.default)
    return [node for node in layers if len(node.args) == 2 and node.all_input_nodes[1].meta["val"].dim() == 1]
