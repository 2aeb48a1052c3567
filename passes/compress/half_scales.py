"""Round scales to float16 where it does not hold them: of groups whose weights are all below 0.0001.

    dequantize_affine(W_int, scale, 0)      ==>      dequantize_affine(W_int, half(scale), 0)

Scales of groups around 0 are bfloat16 numbers (weight_grid.py), and float16 holds those exactly from 2^-17 on; below it
counts in steps of 2^-24. Legality: no scale is above 65504. Other numbers stay: scales of K types, products of float16
numbers and of 8 bits, and minimums, which are float16 numbers, or products of them, already.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule

from edgec.ir.attributes import attribute, set_buffer
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.contract import nodes_of


@dataclass(frozen=True)
class HalfScales:
    """Put scales of integers around 0 on float16's grid; exact, since what it changes is next to nothing."""

    name: str = "half_scales"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Nothing: larger scales stay as they are, and what writes them refuses them."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace the scales that change."""
        for target in scale_names(graph):
            scale = attribute(graph, target)
            half = as_half(scale)
            if not torch.equal(half, scale):
                set_buffer(graph, target, half)
        return program.interface

    def ensures(self, program: Program) -> None:
        """Float16 holds every scale that it can hold."""
        scales = [attribute(program.graph, target) for target in scale_names(program.graph)]
        assert all(torch.equal(as_half(scale), scale) for scale in scales)


def scale_names(graph: GraphModule) -> list[str]:
    """The attributes that hold scales of matrices in integers."""
    leaves = [node.args[2] for node in nodes_of(graph, DEQUANTIZE)]
    return list(dict.fromkeys(str(leaf.target) for leaf in leaves if getattr(leaf, "op", "") == "get_attr"))  # type: ignore[union-attr]


def as_half(scale: Tensor) -> Tensor:
    """bfloat16 scales rounded to float16, all in float32; others, and those beyond its range, stay as they are."""
    half = scale.half().float()
    return torch.where(half.isfinite() & (scale.bfloat16().float() == scale), half, scale)
