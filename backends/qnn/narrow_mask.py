"""Masks that leave 16-bit scores their resolution.

    mask in {0, -40000}            ==>            mask in {0, -100}

A sum of scores and mask is quantised in 65536 steps from its smallest to its largest value: with -40000 a step is 0.6,
and softmax sees no difference between most tokens; with -100 it is 0.002. A hidden token then weighs e^-100 of a
visible one of the same score. Legality: scores of one row lie closer together than 80; where they do not, the parity
ladder shows it. Exact in float32 then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.static.finite_mask import HIDDEN, LITERAL_AT


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
        """No requirement: a graph without masks stays as it is."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace the factor that makes a mask of ones and zeros, and literals of masks."""
        for node, place in _masks(graph):
            value: Any = node.args[place]
            node.update_arg(place, value * self.hidden / HIDDEN)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No wide mask is left."""
        assert not list(_masks(program.graph))


def _masks(graph: GraphModule) -> Iterator[tuple[Node, int]]:
    """Nodes that have the number that hides a score, or its opposite, with the argument's place."""
    for node in nodes_of(graph, *LITERAL_AT):
        place = LITERAL_AT[node.target]  # type: ignore[index]
        value = node.args[place]
        if isinstance(value, int | float) and abs(value) == -HIDDEN:
            yield node, place
