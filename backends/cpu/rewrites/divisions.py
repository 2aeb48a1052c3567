"""Division by one number for each token as a product, so that a token's bits do not depend on its call.

    x / y      ==>      x * reciprocal(y)                x [1, S, H], y [1, S, 1]
    y / c      ==>      y * reciprocal(c)                c one number for all tokens

ExecuTorch's division multiplies by the reciprocal where the divisor is a single number, and divides where it is not. A
divisor for each token is a single number in calls of one token alone, and so their last bits differ from those of
longer calls; a dividend for each token is divided in calls of one token alone. Routers of experts that make their
weights sum to 1 and AltUp (Gemma 3n) divide so. Legality: float32; the reciprocal is rounded once more. Values of
equal shape are divided in any call, and stay. Measured on a tiny Qwen3-MoE: 460 of 1,920 tokens had other bits in calls
of two tokens than alone, and none has now.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_DIVISIONS = (aten.div.Tensor, aten.divide.Tensor, aten.true_divide.Tensor)
_VARYING = -1


def write_out_divisions(graph: GraphModule) -> None:
    """Replace each division that ExecuTorch's kernel computes otherwise in a call of one token."""
    for node in nodes_of(graph, *_DIVISIONS):
        values = [_value(graph, each) for each in (node, *node.args)]
        floats = [each for each in values if isinstance(each, Tensor) and each.dtype == torch.float32]
        if len(floats) == len(values) and _depends_on_call(*map(_sizes, floats[1:])):
            with graph.graph.inserting_before(node):
                product = _product(Emitter(graph.graph), *node.args)
            product.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(product)
            graph.graph.erase_node(node)


def _product(emit: Emitter, dividend: Any, divisor: Any) -> Node:
    inverse = emit(aten.reciprocal.default, divisor) if isinstance(divisor, Node) else 1.0 / divisor
    return emit(aten.mul.Tensor, dividend, inverse)


def _value(graph: GraphModule, operand: Any) -> Any:
    """An operand as a tensor, real or fake, or a size of the call; a number is a float32 tensor of no dimensions."""
    if not isinstance(operand, Node):
        return torch.tensor(float(operand))
    return attribute(graph, str(operand.target)) if operand.op == "get_attr" else operand.meta["val"]


def _sizes(value: Tensor) -> set[int]:
    """The sizes besides 1; those that vary with the call's tokens are all the same here."""
    return {size if isinstance(size, int) else _VARYING for size in value.shape} - {1}


def _depends_on_call(dividend: set[int], divisor: set[int]) -> bool:
    """Whether one of the two is a single number in calls of one token alone, and the other is not."""
    if divisor == {_VARYING}:
        return bool(dividend - {_VARYING})
    return dividend == {_VARYING} and not divisor
