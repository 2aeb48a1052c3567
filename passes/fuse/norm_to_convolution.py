"""Write a batch norm that follows no convolution as a convolution of one value for each channel.

    conv -> relu -> batch_norm -> max_pool      ==>      conv -> relu -> conv(factor [C, 1, 1, 1], C groups) -> max_pool

A channel's factor is exact in 8 bits with a scale for each channel, so that the norm joins the convolutions around it
in integers. Legality: a norm over running statistics, of a value [B, C, T] or [B, C, H, W] in float32. Exact.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.passes.contract import erase_unread, nodes_of
from edgec.passes.fuse.fold_batch_norm import NORM, NormCall
from edgec.passes.graph.weight_edits import parameter

aten = torch.ops.aten
_BY_RANK = {3: aten.conv1d.default, 4: aten.conv2d.default}


def norms_to_convolutions(graph: GraphModule) -> list[Node]:
    """Replace each norm that is legal; returns the new convolutions."""
    norms = [NormCall.of(graph, node) for node in nodes_of(graph, NORM)]
    return [_replace(graph, norm) for norm in norms if norm is not None and _is_legal(norm)]


def _is_legal(norm: NormCall) -> bool:
    value = norm.x.meta.get("val")
    return value is not None and value.dim() in _BY_RANK and value.dtype is torch.float32


def _replace(graph: GraphModule, norm: NormCall) -> Node:
    rank, channels = norm.x.meta["val"].dim(), len(norm.factor)
    ones = [1] * (rank - 2)
    stem = _stem(norm)
    with graph.graph.inserting_before(norm.node):
        weight = parameter(graph, f"{stem}_factor", norm.factor.reshape(channels, 1, *ones).contiguous(), like=norm.x)
        bias = parameter(graph, f"{stem}_shift", norm.shift.contiguous(), like=norm.x)
        places: Any = (ones, [0] * len(ones), ones, channels)
        made = graph.graph.call_function(_BY_RANK[rank], (norm.x, weight, bias, *places))
    made.meta = dict(norm.node.meta)
    norm.node.replace_all_uses_with(made)
    erase_unread(norm.node)
    return made


def _stem(norm: NormCall) -> str:
    """A name for the factor: beside the running statistics."""
    leaf = next(each for each in norm.node.all_input_nodes if each.op == "get_attr")
    return str(leaf.target)
