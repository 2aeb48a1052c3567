"""Write RMS norm, layer norm and group norm out in a form that float16 can compute.

    edgec::rms_norm(x, w, eps)                                      x^2 overflows float16 from |x| = 256 on
    ==>
    m = amax(|x|) + 2^-8 ; y = x / m ; t = sqrt(eps) / m
    y * rsqrt(mean(y^2) + t^2) * w                                  |y| <= 1, t <= 256 sqrt(eps), whatever x is

The norm does not change when x and the square root of eps are divided by the same number, so any m > 0 is exact; the
largest value keeps every square in range, and what is added to it keeps t in range (Zhang & Sennrich 2019, arXiv
1910.07467, for the norm itself).
A layer norm is the RMS norm of x - mean(x), plus its bias; a group norm is that of each group of channels, laid out in
a row. (coremltools 9.0 refuses a group norm in float16 besides: it adds an eps in float32.) Legality: every
``edgec::rms_norm`` and ``aten.group_norm`` node, and every ``aten.layer_norm`` over the last dimension. Exact. Measured
in float16 on values around 1000: the plain norm is 0 everywhere (its square is infinite), this one is at most 2e-3 off,
of 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.operators import RMS_NORM
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
LAYER_NORM = aten.layer_norm.default
GROUP_NORM = aten.group_norm.default
_FLOOR = 2.0**-8


@dataclass(frozen=True)
class Fp16SafeNorm:
    """Write norms out in plain operators that do not overflow; exact."""

    name: str = "fp16_safe_norm"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every norm."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write out every norm."""
        forms: dict[Any, Any] = {RMS_NORM: _rms_norm, LAYER_NORM: _layer_norm, GROUP_NORM: _group_norm}
        for node in nodes_of(graph, *forms):
            if node.target is not LAYER_NORM or len(node.args[1]) == 1:  # type: ignore[arg-type]
                with graph.graph.inserting_before(node):
                    node.replace_all_uses_with(forms[node.target](Emitter(graph.graph), node))
        return program.interface

    def ensures(self, program: Program) -> None:
        """No RMS norm and no group norm is left."""
        assert not nodes_of(program.graph, RMS_NORM, GROUP_NORM)


def _rms_norm(emit: Emitter, node: Node) -> Node:
    x, weight, eps = node.args
    return _scaled(emit, x, weight, eps)


def _layer_norm(emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    x, _, weight, bias, eps = (*given, *(None, None, 1e-5)[len(given) - 2 :])[:5]
    normal = _scaled(emit, _centred(emit, x), weight, eps)
    return normal if bias is None else emit(aten.add.Tensor, normal, bias)


def _group_norm(emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    x, groups, weight, bias, eps = (*given, *(None, None, 1e-5)[len(given) - 2 :])[:5]
    batch, channels, *places = x.meta["val"].shape
    rows = emit(aten.reshape.default, x, [batch, groups, -1])
    normal = emit(aten.reshape.default, _scaled(emit, _centred(emit, rows), None, eps), [batch, channels, *places])
    for operator, each in ((aten.mul.Tensor, weight), (aten.add.Tensor, bias)):
        if each is not None:
            normal = emit(operator, normal, emit(aten.reshape.default, each, [channels, *[1] * len(places)]))
    return normal


def _centred(emit: Emitter, x: Any) -> Node:
    return emit(aten.sub.Tensor, x, emit(aten.mean.dim, x, [-1], True))


def _scaled(emit: Emitter, x: Any, weight: Any, eps: Any) -> Node:
    """Emit ``x / sqrt(mean(x^2) + eps) * weight`` in the scaled form."""
    largest = emit(aten.amax.default, emit(aten.abs.default, x), [-1], True)
    scale = emit(aten.reciprocal.default, emit(aten.add.Tensor, largest, _FLOOR))
    y = emit(aten.mul.Tensor, x, scale)
    t = emit(aten.mul.Tensor, scale, math.sqrt(eps))
    power = emit(aten.mean.dim, emit(aten.mul.Tensor, y, y), [-1], True)
    power = emit(aten.add.Tensor, power, emit(aten.mul.Tensor, t, t))
    normal = emit(aten.mul.Tensor, y, emit(aten.rsqrt.default, power))
    return normal if weight is None else emit(aten.mul.Tensor, normal, weight)
