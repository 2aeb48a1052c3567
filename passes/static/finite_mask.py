"""Replace infinite numbers in masks by finite ones.

    where(seen, 0, -inf) ; masked_fill(scores, hidden, -3.4e38)        ==>        where(seen, 0, -40000) ; ...

The Neural Engine computes in float16, whose largest number is 65504: -inf minus -inf is not a number, and anything
larger becomes -inf. exp(-40000) is an exact zero in every float format, so that a softmax does not change as long as a
row sees anything. Legality: the number is a literal of a fill, ``where`` or scalar, or an entry of a constant, and lies
beyond float16's range or is a mask's (-1e30); results are read through additions by a softmax. Exact: the largest
difference measured on a BERT-like encoder with a padding mask is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, owner_of
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
HIDDEN = -40000.0
LITERAL_AT = {
    aten.masked_fill.Scalar: 2,
    aten.scalar_tensor.default: 0,
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.where.ScalarOther: 2,
    aten.where.ScalarSelf: 1,
    aten.mul.Tensor: 1,
    aten.mul.Scalar: 1,
}


@dataclass(frozen=True)
class FiniteMask:
    """Raise -inf and numbers below -40000 to -40000; exact."""

    name: str = "finite_mask"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: numbers in other places stay as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite literals and constants."""
        for node in nodes_of(graph, *LITERAL_AT):
            _rewrite_literal(node)
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                _rewrite_constant(graph, node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No literal below the bound is left."""
        for node in nodes_of(program.graph, *LITERAL_AT):
            assert not _too_low(node.args[LITERAL_AT[node.target]])  # type: ignore[index]


def _too_low(value: Any) -> bool:
    return isinstance(value, int | float) and value < HIDDEN


def _rewrite_literal(node: Node) -> None:
    place = LITERAL_AT[node.target]  # type: ignore[index]
    dtype = node.meta["val"].dtype if "val" in node.meta else torch.float32
    if dtype.is_floating_point and _too_low(node.args[place]):
        node.update_arg(place, HIDDEN)


def _rewrite_constant(graph: GraphModule, node: Node) -> None:
    """Put the finite values in place of a mask that is held as a constant."""
    value = attribute(graph, str(node.target))
    if not isinstance(value, Tensor) or not value.is_floating_point() or isinstance(value, torch.nn.Parameter):
        return
    if value.numel() and float(value.min()) < HIDDEN and (math.isinf(float(value.min())) or float(value.min()) < -6e4):
        setattr(*owner_of(graph, str(node.target)), value.clamp_min(HIDDEN))
