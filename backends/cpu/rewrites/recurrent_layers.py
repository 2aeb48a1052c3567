"""Let the kernels of recurrent layers read integers and their scales, in place of the floats that these stand for."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from edgec.ir.quantized_form import DEQUANTIZE
from edgec.ir.recurrent_layers import SCALE, WEIGHT
from edgec.passes.contract import erase_unread, nodes_of


def read_recurrent_integers(graph: GraphModule) -> None:
    """Rewrite the operators whose matrix is dequantised, in place."""
    for node in nodes_of(graph, *WEIGHT):
        weight = node.args[WEIGHT[node.target]]
        if isinstance(weight, Node) and weight.target is DEQUANTIZE:
            node.update_arg(WEIGHT[node.target], weight.args[0])
            node.update_arg(SCALE[node.target], weight.args[2])
            erase_unread(weight)
