"""RMS norm in a form that float16 can compute.

    edgec::rms_norm(x, w, eps)                                      x^2 overflows float16 from |x| = 256 on
    ==>
    m = amax(|x|) + 2^-8 ; y = x / m ; t = sqrt(eps) / m
    y * rsqrt(mean(y^2) + t^2) * w                                  |y| <= 1, t <= 256 sqrt(eps), whatever x is

The norm does not change when x and the square root of eps are divided by the same number, so any m > 0 is exact; the
largest value keeps every square in range, and what is added to it keeps t in range (Zhang & Sennrich 2019, arXiv
1910.07467, for the norm itself).
Legality: every ``edgec::rms_norm`` node, over the last dimension. Exact. Measured in float16 on values around 1000: the
plain norm is 0 everywhere (its square is infinite), this one is 2e-3 off at most, of 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from edgec.exporter.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.emit import Emitter
from edgec.passes.operators import RMS_NORM

aten = torch.ops.aten
_FLOOR = 2.0**-8


@dataclass(frozen=True)
class Fp16SafeNorm:
    """``edgec::rms_norm`` in plain operators that do not overflow; exact."""

    name: str = "fp16_safe_norm"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Nothing: legal on every norm."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write out every norm."""
        for node in nodes_of(graph, RMS_NORM):
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(_written_out(Emitter(graph.graph), node))
        return program.interface

    def ensures(self, program: Program) -> None:
        """No norm is left."""
        assert not nodes_of(program.graph, RMS_NORM)


def _written_out(emit: Emitter, node: Node) -> Node:
    x, weight, eps = node.args
    assert isinstance(x, Node) and isinstance(eps, float)
    largest = emit(aten.amax.default, emit(aten.abs.default, x), [-1], True)
    scale = emit(aten.reciprocal.default, emit(aten.add.Tensor, largest, _FLOOR))
    y = emit(aten.mul.Tensor, x, scale)
    t = emit(aten.mul.Tensor, scale, math.sqrt(eps))
    power = emit(aten.mean.dim, emit(aten.mul.Tensor, y, y), [-1], True)
    power = emit(aten.add.Tensor, power, emit(aten.mul.Tensor, t, t))
    normal = emit(aten.mul.Tensor, y, emit(aten.rsqrt.default, power))
    return normal if weight is None else emit(aten.mul.Tensor, normal, weight)
