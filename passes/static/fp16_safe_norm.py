"""Write RMS norm, layer norm, group norm and Euclidean norms out in a form that float16 can compute.

    edgec::rms_norm(x, w, eps)                                      x^2 overflows float16 from |x| = 256 on
    ==>
    m = amax(|x|) + 2^-8 ; y = x / m ; t = sqrt(eps) / m
    y * rsqrt(mean(y^2) + t^2) * w                                  |y| <= 1, t <= 256 sqrt(eps), whatever x is

The norm does not change when x and the square root of eps are divided by the same number, so any m > 0 is exact; the
largest value keeps every square in range, and what is added to it keeps t in range (Zhang & Sennrich 2019, arXiv
1910.07467, for the norm itself).
    x / max(|x|, eps)          ==>          y * rsqrt(sum(y^2) + 2^-14) ,  y = x / (amax(|x|) + 2^-14)

Vectors of length 1 are made likewise (``F.normalize``), whose eps of 1e-12 is 0 in float16; and a vector's length is
the largest value times the length of y.
A layer norm is the RMS norm of x - mean(x), plus its bias; a group norm is that of each group of channels, laid out in
a row. (coremltools 9.0 refuses a group norm in float16 besides: it adds an eps in float32.) Means of many values are
taken in steps (``passes/graph/long_mean.py``): 2,048 values around 100 have a sum beyond float16. Legality: every
``edgec::rms_norm``, ``aten.group_norm`` and ``aten.layer_norm`` node, and every vector norm of order 2, clamped below
1e-4 or not at all. Exact. Measured in float16 on values around 1000: the plain norm is 0 everywhere (its square is
infinite), this one is at most 2e-3 off, of 4; a layer norm of 2,048 and a group norm of 16,384 values around 100: NaN
before, within what float16 keeps of their inputs now.
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
from edgec.passes.graph.long_mean import emit_mean

aten = torch.ops.aten
LAYER_NORM = aten.layer_norm.default
GROUP_NORM = aten.group_norm.default
VECTOR_NORM = aten.linalg_vector_norm.default
_FLOOR = 2.0**-8
# float16's smallest normal number: below it a vector counts as 0, and its direction is not kept.
_SMALLEST = 2.0**-14
_SQUARES = 1 << 15


@dataclass(frozen=True)
class Fp16SafeNorm:
    """Write norms out in plain operators that do not overflow; exact."""

    name: str = "fp16_safe_norm"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every norm."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write out every norm."""
        for node in nodes_of(graph, aten.div.Tensor):
            if (norm := _divisor(node)) is not None:
                with graph.graph.inserting_before(node):
                    node.replace_all_uses_with(_direction(Emitter(graph.graph), *norm.args[:3:2]))
        graph.graph.eliminate_dead_code()
        for node in nodes_of(graph, VECTOR_NORM):
            if _is_euclidean(node):
                with graph.graph.inserting_before(node):
                    node.replace_all_uses_with(_length(Emitter(graph.graph), node))
        forms: dict[Any, Any] = {RMS_NORM: _rms_norm, LAYER_NORM: _layer_norm, GROUP_NORM: _group_norm}
        for node in nodes_of(graph, *forms):
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(forms[node.target](Emitter(graph.graph), node))
        return program.interface

    def ensures(self, program: Program) -> None:
        """No norm is left."""
        assert not nodes_of(program.graph, RMS_NORM, GROUP_NORM, LAYER_NORM)


def _rms_norm(emit: Emitter, node: Node) -> Node:
    x, weight, eps = node.args
    return _scaled(emit, x, weight, eps)


def _layer_norm(emit: Emitter, node: Node) -> Node:
    given: Any = node.args
    x, over, weight, bias, eps = (*given, *(None, None, 1e-5)[len(given) - 2 :])[:5]
    if len(over) == 1:
        normal = _scaled(emit, _centred(emit, x), weight, eps)
    else:
        shape = list(x.meta["val"].shape)
        rows = emit(aten.reshape.default, x, [*shape[: -len(over)], -1])
        normal = emit(aten.reshape.default, _scaled(emit, _centred(emit, rows), None, eps), shape)
        normal = normal if weight is None else emit(aten.mul.Tensor, normal, weight)
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


def _divisor(node: Node) -> Node | None:
    """The Euclidean norm by which a quotient divides the very vectors that it is of, if it does."""
    value: Any = node.args[1]
    while isinstance(value, Node) and value.target in (aten.expand.default, aten.expand_as.default):
        value = value.args[0]
    if not isinstance(value, Node) or value.target not in (aten.clamp_min.default, aten.clamp.default):
        return None
    norm, low = value.args[:2]
    small = isinstance(low, float) and low <= 1e-4 and len(value.args) == 2
    return norm if small and isinstance(norm, Node) and _is_euclidean(norm) and norm.args[0] is node.args[0] else None


def _is_euclidean(node: Node) -> bool:
    """Whether a node is a vector norm of order 2 along named dimensions."""
    order, dimensions = (*node.args[1:3], *[None] * 2)[:2]
    return node.target is VECTOR_NORM and order in (2, 2.0, None) and isinstance(dimensions, list | tuple)


def _direction(emit: Emitter, x: Any, dimensions: Any) -> Node:
    """Emit vectors of length 1."""
    y, _ = _shrunk(emit, x, dimensions)
    power = emit(aten.sum.dim_IntList, emit(aten.mul.Tensor, y, y), dimensions, True)
    return emit(aten.mul.Tensor, y, emit(aten.rsqrt.default, emit(aten.add.Tensor, power, _SMALLEST)))


def _length(emit: Emitter, node: Node) -> Node:
    """Emit the length of vectors."""
    x, dimensions = node.args[0], node.args[2]
    y, largest = _shrunk(emit, x, dimensions)
    length = emit(aten.sqrt.default, emit(aten.sum.dim_IntList, emit(aten.mul.Tensor, y, y), dimensions, True))
    return emit(aten.reshape.default, emit(aten.mul.Tensor, length, largest), list(node.meta["val"].shape))


def _shrunk(emit: Emitter, x: Any, dimensions: Any) -> tuple[Node, Node]:
    """Emit vectors divided by about their largest values, and these."""
    largest = emit(aten.add.Tensor, emit(aten.amax.default, emit(aten.abs.default, x), dimensions, True), _SMALLEST)
    return emit(aten.mul.Tensor, x, emit(aten.reciprocal.default, largest)), largest


def _centred(emit: Emitter, x: Any) -> Node:
    return emit(aten.sub.Tensor, x, emit_mean(emit, x, [-1], True))


def _scaled(emit: Emitter, x: Any, weight: Any, eps: Any) -> Node:
    """Emit ``x / sqrt(mean(x^2) + eps) * weight`` in the scaled form."""
    largest = emit(aten.amax.default, emit(aten.abs.default, x), [-1], True)
    scale = emit(aten.reciprocal.default, emit(aten.add.Tensor, largest, _FLOOR))
    y = emit(aten.mul.Tensor, x, scale)
    t = emit(aten.mul.Tensor, scale, math.sqrt(eps))
    # Squares are at most 1.
    power = emit_mean(emit, emit(aten.mul.Tensor, y, y), [-1], True, short=_SQUARES)
    power = emit(aten.add.Tensor, power, emit(aten.mul.Tensor, t, t))
    normal = emit(aten.mul.Tensor, y, emit(aten.rsqrt.default, power))
    return normal if weight is None else emit(aten.mul.Tensor, normal, weight)
