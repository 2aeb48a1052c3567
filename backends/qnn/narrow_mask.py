"""Masks that leave 16-bit scores their resolution.

    mask in {0, -40000}            ==>            mask in {0, -100}

A sum of scores and mask is quantised in 65536 steps from its smallest to its largest value: with -40000 a step is 0.6,
and softmax sees no difference between most tokens; with -100 it is 0.002. A hidden token then weighs e^-100 of a
visible one of the same score. Legality: scores of one row lie closer together than 80; where they do not, the parity
ladder shows it. Exact in float32 then.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.fx import GraphModule

from edgec.exporter.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.finite_mask import HIDDEN

aten = torch.ops.aten


@dataclass(frozen=True)
class NarrowMask:
    """A smaller number where ``static_attention`` hides tokens; exact to 16 bits.

    Attributes:
        hidden: what is added to a hidden score.
    """

    hidden: float = -100.0
    name: str = "narrow_mask"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Nothing: a graph without masks stays as it is."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace the factor that makes a mask of ones and zeros."""
        for node in nodes_of(graph, aten.mul.Tensor):
            if node.args[1] == -HIDDEN:
                node.update_arg(1, -self.hidden)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No wide mask is left."""
        assert not [node for node in nodes_of(program.graph, aten.mul.Tensor) if node.args[1] == -HIDDEN]
