"""Views as reshapes, so that no shape depends on how a value lies in memory."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from edgec.passes.contract import nodes_of


def reshape_views(graph: GraphModule) -> None:
    """Let no shape depend on how a value lies in memory: passes move and remove what made it contiguous."""
    for node in nodes_of(graph, torch.ops.aten.view.default):
        node.target = torch.ops.aten.reshape.default
