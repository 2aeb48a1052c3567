"""The name of the layer that a value inside a graph belongs to, for messages about it.

    down_proj -> (+) -> norm -> ...            the sum belongs to model.layers.3.mlp.down_proj
    gate_proj -> silu -> (*) -> down_proj      the product to model.layers.3.mlp.gate_proj or up_proj

Names are those of the checkpoint's parameters, without what passes added to them.
"""

from __future__ import annotations

import re

import torch
from torch.fx import Node

from edgec.ir.quantized_form import parameter_name

aten = torch.ops.aten
_WEIGHT = {aten.linear.default: 1, aten.conv2d.default: 1, aten.embedding.default: 0}
_SUFFIX = re.compile(r"\.weight.*$")


def layer_name(node: Node) -> str:
    """The nearest layer at or before a node by its parameter's name without ``.weight``; the node's own if none is."""
    order = {each: place for place, each in enumerate(node.graph.nodes)}
    reached, seen = [node], {node}
    while reached:
        # Of two layers equally near, the later one made the value what it is.
        layers = [each for each in reached if each.target in _WEIGHT]
        if layers:
            return matrix_name(max(layers, key=lambda each: order[each]))
        further = (source for each in reached for source in each.all_input_nodes)
        reached = list(dict.fromkeys(source for source in further if source not in seen))
        seen.update(reached)
    return node.name


def matrix_name(layer: Node) -> str:
    """The name of a layer by the parameter that it reads, whatever form that has."""
    weight = layer.args[_WEIGHT[layer.target]]  # type: ignore[index]
    while isinstance(weight, Node) and weight.op != "get_attr" and weight.all_input_nodes:
        weight = weight.all_input_nodes[0]
    assert isinstance(weight, Node)
    return plain_name(parameter_name(weight))


def plain_name(parameter: str) -> str:
    """A parameter's name without what the capture, passes and ``.weight`` added to the layer's."""
    return _SUFFIX.sub("", parameter.removeprefix("decoder."))
