"""Multiply by a matrix of the model with a linear layer, where code writes ``x @ weight``.

    x [..., I], weight [I, O] -> matmul            ==>            x -> linear(weight transposed [O, I])

ExecuTorch's portable product takes one number at a time; linear layers run on edgec's kernels or XNNPACK, and can be
rounded. Gemma 3 projects its images this way. Legality: the second operand is a parameter of rank 2, the first has a
rank of 2 or more; exact. Measured on a tiny random Gemma 3: its features stay equal to 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.fuse.convolution_to_linear import matrix_parameter, stored_weight
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


@dataclass(frozen=True)
class MatmulToLinear:
    """Replace products with a parameter by linear layers; exact."""

    name: str = "matmul_to_linear"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other products are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each product that is legal."""
        for node in nodes_of(graph, aten.matmul.default, aten.mm.default):
            arguments: Any = node.args
            x, weight = arguments
            if not _is_legal(graph, x, weight):
                continue
            stored = stored_weight(graph, weight)
            assert stored is not None
            with graph.graph.inserting_before(node):
                emit = Emitter(graph.graph)
                matrix = matrix_parameter(graph, emit, weight, stored.T.contiguous())
                result = emit(aten.linear.default, x, matrix)
            result.meta = {**node.meta, "val": result.meta["val"]}
            node.replace_all_uses_with(result)
            graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: no graph is illegal afterwards."""


def _is_legal(graph: GraphModule, x: Node, weight: Node) -> bool:
    stored = stored_weight(graph, weight)
    return stored is not None and stored.dim() == 2 and x.meta["val"].dim() > 1
