"""Replace infinite numbers in masks by finite ones.

    where(seen, 0, -inf) ; masked_fill(scores, hidden, -3.4e38)        ==>        where(seen, 0, -40000) ; ...
    softmax(scores + mask)          ==>          softmax(max(scores + mask, -40000)), the mask -45000; ``hidden_rows``

The Neural Engine computes in float16, whose largest number is 65504: -inf minus -inf is not a number, and anything
larger becomes -inf. exp(-40000) is an exact zero in every float format, so that a softmax does not change as long as a
row sees anything. A row that sees nothing weighs all alike, since float32's least number takes every score in; -40000
leaves their differences (0.92 of the largest output, measured): hidden scores are made equal where there may be such
rows.
Legality: the number is a literal of a fill, ``where`` or scalar, or an entry of a constant, and lies beyond float16's
range or is a mask's (-1e30), and no output shows it; scores lie within 5,000 of 0. Exact: the largest difference
measured on a BERT-like encoder with a padding mask is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, owner_of
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
HIDDEN = -40000.0
# So far below ``HIDDEN`` that a score added to it stays below, and so little that float16 holds the sum.
_BELOW = -45000.0
_SOFTMAX = (aten.softmax.int, aten._softmax.default)
_ADDS = (aten.add.Tensor, aten.sub.Tensor)
# What hands a number on as it is, or lays it beside others.
_THROUGH = frozenset(
    {
        *_ADDS,
        *(aten.add.Scalar, aten.mul.Tensor, aten.mul.Scalar, aten.where.self, aten.where.ScalarOther),
        *(aten.where.ScalarSelf, aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.to.dtype, aten.alias.default),
        *(aten.expand.default, aten.reshape.default, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim),
        *(aten.transpose.int, aten.permute.default, aten.slice.Tensor, aten.select.int, aten.cat.default),
        *(
            aten.stack.default,
            aten.contiguous.default,
            aten.clone.default,
            aten.repeat.default,
            aten.flatten.using_ints,
        ),
    }
)
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
    """Raise -inf and numbers below -40000 to -40000; exact.

    Attributes:
        hidden_rows: a row of scores may see nothing, as one of a batch that is all padding.
    """

    hidden_rows: bool = False
    name: str = "finite_mask"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: numbers in other places stay as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rewrite literals and constants, and clamp the scores that additive ones go into."""
        for node in _masks(graph):
            added = _added_to(node) if self.hidden_rows else set()
            _rewrite(graph, node, _BELOW if added else HIDDEN)
            for softmax in added:
                _clamp(graph, softmax)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No literal below the bound is left but what outputs show."""
        assert not [node for node in _masks(program.graph) if node.op == "call_function"]


def _masks(graph: GraphModule) -> list[Node]:
    """The nodes that bring a number that is too low, but for those that an output shows."""
    literals = [node for node in nodes_of(graph, *LITERAL_AT) if _is_low_literal(node)]
    constants = [node for node in graph.graph.nodes if node.op == "get_attr" and _is_low_constant(graph, node)]
    return [node for node in (*literals, *constants) if not any(end.op == "output" for end, _ in _readers(node))]


def _readers(start: Node) -> Iterator[tuple[Node, bool]]:
    """What reads a number after all that hands it on, and whether something was added to it on the way."""
    seen, ahead = set[tuple[Node, bool]](), [(start, False)]
    while ahead:
        node, added = ahead.pop()
        for user in node.users:
            step = (user, added or user.target in _ADDS)
            if user.target not in _THROUGH:
                yield user, added
            elif step not in seen:
                seen.add(step)
                ahead.append(step)


def _added_to(node: Node) -> set[Node]:
    """The softmaxes of scores to which a number is added."""
    return {reader for reader, added in _readers(node) if added and reader.target in _SOFTMAX}


def _clamp(graph: GraphModule, softmax: Node) -> None:
    """Make hidden scores equal."""
    scores = softmax.args[0]
    assert isinstance(scores, Node)
    if scores.target is not aten.clamp.default:
        with graph.graph.inserting_before(softmax):
            softmax.update_arg(0, Emitter(graph.graph)(aten.clamp.default, scores, HIDDEN))


def _too_low(value: Any) -> bool:
    return isinstance(value, int | float) and value < _BELOW


def _is_low_literal(node: Node) -> bool:
    dtype = node.meta["val"].dtype if "val" in node.meta else torch.float32
    return dtype.is_floating_point and _too_low(node.args[LITERAL_AT[node.target]])  # type: ignore[index]


def _is_low_constant(graph: GraphModule, node: Node) -> bool:
    value = attribute(graph, str(node.target))
    if not isinstance(value, Tensor) or not value.is_floating_point() or isinstance(value, torch.nn.Parameter):
        return False
    return bool(value.numel()) and float(value.min()) < HIDDEN and _is_beyond(float(value.min()))


def _is_beyond(value: float) -> bool:
    return math.isinf(value) or value < -6e4


def _rewrite(graph: GraphModule, node: Node, lowest: float) -> None:
    """Put the finite number in the place of a literal, or of the entries of a mask that is held as a constant."""
    if node.op == "call_function":
        node.update_arg(LITERAL_AT[node.target], lowest)  # type: ignore[index]
        return
    setattr(*owner_of(graph, str(node.target)), attribute(graph, str(node.target)).clamp_min(lowest))
