"""PReLU of vectors and sequences in operators that XNNPACK takes at any rank.

    prelu(x [B, C], w [C])                            ==>          max(x, 0) + w * -max(-x, 0)

ExecuTorch's partitioner takes a PReLU of any rank, and its pass for channels-last layouts knows images alone: it fails
with an assertion, so that a face detector whose slopes follow a linear layer could not be lowered at all. Legality:
values that are not images [B, C, H, W]. Exact.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.slopes import emit_slopes

aten = torch.ops.aten
_IMAGE = 4


def write_out_slopes(graph: GraphModule) -> None:
    """Replace each PReLU of the graph whose values are not images."""
    for node in nodes_of(graph, aten.prelu.default):
        if node.all_input_nodes[0].meta["val"].dim() != _IMAGE:
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(emit_slopes(Emitter(graph.graph), node))
            graph.graph.erase_node(node)
