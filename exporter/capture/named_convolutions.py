"""Convolutions by their names: TorchScript's ``_convolution``, one operator for all, which no runtime has."""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from edgec.passes.contract import nodes_of

aten = torch.ops.aten
_PLAIN = (aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
_TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)


def name_convolutions(graph: GraphModule) -> None:
    """Replace each by the convolution of its rank, which passes and backends know."""
    for node in nodes_of(graph, aten._convolution.default):
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *_ = node.args
        assert isinstance(weight, Node)
        place = weight.meta["val"].dim() - 3
        if transposed:
            node.target = _TRANSPOSED[place]
            node.args = (x, weight, bias, stride, padding, output_padding, groups, dilation)
        else:
            node.target = _PLAIN[place]
            node.args = (x, weight, bias, stride, padding, dilation, groups)
