"""Write the integer weights of convolutions in the form that XNNPACK's partitioner reads.

    torchao.dequantize_affine(W_int, block [1, I, H, W], scale [O], zero [O]) -> conv
    ==>
    quantized_decomposed.dequantize_per_channel(W_int, scale, zero, axis 0)   -> conv

In the first form, that of all integers in edgec's graphs, the partitioner knows matrices alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir import fixed_ranges  # noqa: F401  (registers torch.ops.quantized_decomposed)
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.graph.convolution_call import convolutions

_BY_CHANNEL = torch.ops.quantized_decomposed.dequantize_per_channel.default


def write_out_channels(graph: GraphModule) -> None:
    """Rewrite what dequantises the weight of a convolution, in place."""
    for call in convolutions(graph):
        weight = call.weight
        if weight.target is not DEQUANTIZE:
            continue
        given: Any = weight.args
        integers, _, scale, zeros, dtype, low, high = given[:7]
        with graph.graph.inserting_before(weight):
            made = graph.graph.call_function(_BY_CHANNEL, (integers, scale, zeros, call.channel, low, high, dtype))
        made.meta = dict(weight.meta)
        _replace(weight, made)


def _replace(weight: Node, made: Node) -> None:
    weight.replace_all_uses_with(made)
    weight.graph.erase_node(weight)
