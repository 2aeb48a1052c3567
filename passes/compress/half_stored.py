"""Round the scales and minimums of a checkpoint's integers to float16, for formats that hold them in nothing wider.

    dequantize_affine(W_int, scale, 0)             ==>      dequantize_affine(W_int, half(scale), 0)
    dequantize_minimum(W_int, scale, minimum)      ==>      dequantize_minimum(W_int, half(scale), half(minimum))

Most scales are float16 numbers already and stay. Those of a row may be float32: their integers are kept, and the values
change by its rounding. Minimums that are whole multiples of their scales stay too: they are stored as zero points.
Legality: the integers are a checkpoint's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.ir.attributes import attribute, set_buffer
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import RECORD, decisions_of
from edgec.ir.stored_forms import ZERO_BITS
from edgec.ir.weight_decision import Decision

BEYOND_HALF = "its integers are kept; float16 does not hold its scales, which are rounded to it"


@dataclass(frozen=True)
class HalfStored:
    """Put scales and minimums of stored integers on float16's grid; approximate."""

    name: str = "half_stored"
    effect: Effect = Effect.APPROXIMATE

    def concerns(self, program: Program) -> bool:
        """Whether float16 does not hold a scale or a minimum of the checkpoint's."""
        return any(_changing(program.graph, decision) for decision in _stored(program.graph))

    def requires(self, program: Program) -> None:
        """Nothing: float16 holds numbers up to 65504, and larger weights are refused elsewhere (E830)."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace what changes, and say so in the record."""
        changed = {name for decision in _stored(graph) for name in _changing(graph, decision)}
        for name in changed:
            set_buffer(graph, name, _half(attribute(graph, name)))
        graph.meta[RECORD] = tuple(
            replace(decision, reason=BEYOND_HALF) if changed.intersection(decision.buffers) else decision
            for decision in decisions_of(graph)
        )
        return program.interface

    def ensures(self, program: Program) -> None:
        """Float16 holds all of them."""
        assert not self.concerns(program)


def _stored(graph: GraphModule) -> Iterator[Decision]:
    return (decision for decision in decisions_of(graph) if decision.used is not None and decision.used.stored)


def _changing(graph: GraphModule, decision: Decision) -> list[str]:
    """The buffers of a matrix that float16 does not hold: of scales, and of minimums other than zero points."""
    assert decision.used is not None
    whole = decision.used.symmetric or decision.used.scale_bits == ZERO_BITS
    names = decision.buffers[1:2] if whole else decision.buffers[1:]
    return [name for name in names if not torch.equal(_half(attribute(graph, name)), attribute(graph, name))]


def _half(value: Tensor) -> Tensor:
    return value.half().float()
