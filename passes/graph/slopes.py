"""A PReLU in operators that every backend has.

prelu(x [B, C, ...], w [C] or [1])                ==>          max(x, 0) + w * -max(-x, 0)
"""

from __future__ import annotations

import torch
from torch.fx import Node

from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


def emit_slopes(emit: Emitter, node: Node) -> Node:
    """Emit what a PReLU computes, with a slope for each channel or one for all."""
    x, slopes = node.all_input_nodes
    shape = [-1, *[1] * max(0, x.meta["val"].dim() - 2)]
    below = emit(aten.neg.default, emit(aten.relu.default, emit(aten.neg.default, x)))
    sloped = emit(aten.mul.Tensor, below, emit(aten.reshape.default, slopes, shape))
    return emit(aten.add.Tensor, emit(aten.relu.default, x), sloped)
