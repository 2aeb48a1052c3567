"""Activation checkpointing: a graph cut at its attention layers, whose pieces are computed again in the backward pass.

    q0, k0, v0 | attention 0 ... q1, k1, v1 | attention 1 ... -> logits        each piece keeps its inputs only

Chen et al. 2016 (arXiv 1604.06174). Memory of activations falls to what crosses the cuts, for about a third more time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.passes.split_module import split_module
from torch.utils.checkpoint import checkpoint

from edgec.ir.attention import layer_of


def recomputed(graph: GraphModule) -> nn.Module:
    """The graph as one module per layer, each recomputed in the backward pass; parameters are shared with ``graph``."""
    places: dict[Node, int] = {}
    passed = 0
    for node in graph.graph.nodes:
        passed += layer_of(node) is not None
        places[node] = passed
    graph.graph.set_codegen(CodeGen())
    pieces = split_module(graph, graph, lambda node: places[node])
    for name, piece in list(pieces.named_children()):
        if name.startswith("submod_"):
            setattr(pieces, name, _Recomputed(piece))
    return pieces


class _Recomputed(nn.Module):
    def __init__(self, piece: nn.Module) -> None:
        super().__init__()
        self.piece = piece

    def forward(self, *inputs: Any) -> Any:
        """The piece's outputs; nothing inside is kept."""
        if not torch.is_grad_enabled():
            return self.piece(*inputs)
        return checkpoint(self.piece, *inputs, use_reentrant=False)
