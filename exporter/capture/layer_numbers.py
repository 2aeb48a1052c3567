"""Numbers of attention layers where a model's own code has none: most image encoders and some encoders of sound."""

from __future__ import annotations

from torch.fx import GraphModule

from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.passes.contract import nodes_of

_LAYER = 5


def number_layers(graph: GraphModule) -> None:
    """Number the attentions of a graph by their order, where all of them have the same number."""
    attentions = nodes_of(graph, OPERATOR)
    if len({AttentionCall.of(node).layer for node in attentions}) == 1:
        for layer, node in enumerate(attentions):
            node.update_arg(_LAYER, layer)
