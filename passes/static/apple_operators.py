"""Write norms, slopes of channels and stretched sequences by operators that Core ML and Core AI take in float16.

    instance_norm(x [B, C, ...], w, b, eps)           ==>          group_norm(x, C groups, w, b, eps)
    instance_norm(x, w, b, mean, variance)            ==>          batch_norm(x, w, b, mean, variance)
    prelu(x [B, C, ...], w [C])                       ==>          max(x, 0) + w * -max(-x, 0)
    upsample_linear1d(x [B, C, L])                    ==>          upsample_bilinear2d(x [B, C, 1, L])

coremltools refuses an instance norm of float16 values, whose eps it keeps in float32, and slopes that differ on
vectors, sequences and volumes (E404); coreai-torch stores a matrix of all old by all new places of a sequence, and the
weights before slopes twice (E210).
Legality: a group norm of one channel a group is an instance norm, a batch norm one with statistics from training;
images [B, C, H, W] keep their slopes for Core ML, which has an operator for them, as does one slope for all channels.
Exact.
Measured on a sequence of 200 places stretched to 250, for Core AI: 104,135 bytes before, 5,956 after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.graph.slopes import emit_slopes

aten = torch.ops.aten
_IMAGE = 4


@dataclass(frozen=True)
class AppleOperators:
    """Replace instance norms, slopes of channels and stretched sequences; exact.

    Attributes:
        images_too: write the slopes of images [B, C, H, W] out as well.
    """

    images_too: bool = False
    name: str = "apple_operators"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every graph."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rename norms, and write the others in their own place."""
        for node in nodes_of(graph, aten.instance_norm.default):
            _rename(node)
        slopes = self._slopes(graph)
        stretched = nodes_of(graph, aten.upsample_linear1d.vec)
        for node, write in [*((node, emit_slopes) for node in slopes), *((node, _stretched) for node in stretched)]:
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(write(Emitter(graph.graph), node))
            graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """Slopes are left where the converter takes them, and none of the others."""
        assert not nodes_of(program.graph, aten.instance_norm.default, aten.upsample_linear1d.vec)
        assert not self._slopes(program.graph)

    def _slopes(self, graph: GraphModule) -> list[Node]:
        """Each PReLU with a slope for each channel that is not left to the converter."""
        return [node for node in nodes_of(graph, aten.prelu.default) if _has_slopes(node, self.images_too)]


def _rename(node: Node) -> None:
    given: Any = node.args
    x, weight, bias, mean, variance, measured, momentum, eps, _ = given
    if measured:
        node.target, node.args = aten.group_norm.default, (x, x.meta["val"].shape[1], weight, bias, eps)
    else:
        node.target = aten.batch_norm.default
        node.args = (x, weight, bias, mean, variance, False, momentum, eps, False)


def _has_slopes(node: Node, images_too: bool) -> bool:
    """Whether a PReLU has a slope for each channel of something other than an image."""
    x, slopes = (each.meta["val"] for each in node.all_input_nodes)
    return slopes.numel() > 1 and (images_too or x.dim() != _IMAGE)


def _stretched(emit: Emitter, node: Node) -> Node:
    """A sequence as an image of one row."""
    given: Any = node.args
    x, size, aligned, factors = given
    row = emit(aten.unsqueeze.default, x, 2)
    length = None if size is None else [1, *size]
    image = emit(aten.upsample_bilinear2d.vec, row, length, aligned, None if factors is None else [1.0, *factors])
    return emit(aten.squeeze.dim, image, 2)
