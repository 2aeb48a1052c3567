"""Write operators by those that every backend knows: other names, Einstein sums, windows side by side, plain numbers.

    multiply(x, y)                                    ==>      mul(x, y)
    einsum("...pd,...qd->...pq", x, y)                ==>      views, permutations -> bmm -> view
    im2col(x, [9, 1])                                 ==>      pad -> 9 slices -> stack -> view
    zeros_like(x, dtype=float32)                      ==>      full(shape of x, 0, dtype=float32)
    nan_to_num(x, 0, 1e4, -1e4)                       ==>      three masked fills, where x is not x, inf and -inf

Legality: torch computes an Einstein sum so itself; windows are copies; what is filled has a fixed shape and
another type than what it is like. Exact.
Measured on tiny random models for iPhone: coremltools refused ConvBERT for the name ``multiply`` and OWL-ViT for the
dots of its sum (E404), wrote ConvBERT's windows as a convolution whose weights took 166 KB beside the model's 197
(E210), and gave zeros like a mask the mask's type, which made Mask2Former's scores 1 (E201); all three convert after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_NUMBERS = ("nan", "posinf", "neginf")
_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default})
_NAMES: Mapping[object, Any] = {
    aten.multiply.Tensor: aten.mul.Tensor,
    aten.multiply.Scalar: aten.mul.Scalar,
    aten.divide.Tensor: aten.div.Tensor,
    aten.divide.Scalar: aten.div.Scalar,
    aten.divide.Tensor_mode: aten.div.Tensor_mode,
    aten.true_divide.Tensor: aten.div.Tensor,
    aten.subtract.Tensor: aten.sub.Tensor,
    aten.subtract.Scalar: aten.sub.Scalar,
    aten.negative.default: aten.neg.default,
    aten.absolute.default: aten.abs.default,
}


@dataclass(frozen=True)
class PlainOperators:
    """Replace other names and Einstein sums; exact."""

    name: str = "plain_operators"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: legal on every graph."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Write each such operator in its own place."""
        for node in nodes_of(graph, *_NAMES):
            node.target = _NAMES[node.target]
        for node in nodes_of(graph, *_WRITTEN):
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(_WRITTEN[node.target](Emitter(graph.graph), node))
            graph.graph.erase_node(node)
        for node in nodes_of(graph, *_FILLS, aten.full_like.default):
            _fill(graph, node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """None of them is left."""
        assert not nodes_of(program.graph, *_NAMES, *_WRITTEN)


def _sum(emit: Emitter, node: Node) -> Node:
    """The operators that torch computes an Einstein sum with."""
    equation, tensors = node.args[:2]
    given: Any = tensors
    written = make_fx(lambda *each: torch.einsum(equation, *each))(*[tensor.meta["val"] for tensor in given])
    places, left = dict[Node, Node](), iter(given)
    for inner in written.graph.nodes:
        if inner.op == "placeholder":
            places[inner] = next(left)
        elif inner.op == "call_function":
            args, kwargs = map_arg((inner.args, inner.kwargs), lambda source: places[source])
            # Views were chosen by strides, which depend on copies that other passes remove.
            places[inner] = emit(aten.reshape.default if inner.target in _VIEWS else inner.target, *args, **kwargs)
    return places[written.graph.output_node().args[0]]  # type: ignore[index]


def _windows(emit: Emitter, node: Node) -> Node:
    """The windows of ``im2col``: for each place in a window what lies there, [N, C x places, windows]."""
    source, *given = node.args
    shape = source.meta["val"].shape  # type: ignore[union-attr]
    asked: Any = (*given, shape[-2:])
    height, width = (_Side(*each) for each in zip(*asked, strict=True))
    padded = emit(aten.constant_pad_nd.default, source, [width.padding] * 2 + [height.padding] * 2)
    rows = [emit(aten.slice.Tensor, padded, -2, *height.part(place)) for place in range(height.kernel)]
    parts = [emit(aten.slice.Tensor, row, -1, *width.part(place)) for row in rows for place in range(width.kernel)]
    return emit(aten.reshape.default, emit(aten.stack.default, parts, len(shape) - 2), list(node.meta["val"].shape))


@dataclass(frozen=True)
class _Side:
    """One dimension of windows."""

    kernel: int
    dilation: int
    padding: int
    stride: int
    size: int

    def part(self, place: int) -> tuple[int, int, int]:
        """What lies at a place of all windows: begin, end, step."""
        reach = self.dilation * (self.kernel - 1) + 1
        windows = (self.size + 2 * self.padding - reach) // self.stride + 1
        begin = place * self.dilation
        return begin, begin + (windows - 1) * self.stride + 1, self.stride


def _plain_numbers(emit: Emitter, node: Node) -> Any:
    """A tensor with numbers in the place of NaN and of infinities."""
    given: Any = (*node.args, *[None] * 3)
    x, (nan, high, low) = (
        given[0],
        (node.kwargs.get(name, value) for name, value in zip(_NUMBERS, given[1:4], strict=True)),
    )
    dtype = x.meta["val"].dtype
    if not dtype.is_floating_point:
        return x
    ends = torch.finfo(dtype)
    places = (
        (emit(aten.ne.Tensor, x, x), nan or 0.0),
        (emit(aten.eq.Scalar, x, math.inf), ends.max if high is None else high),
        (emit(aten.eq.Scalar, x, -math.inf), ends.min if low is None else low),
    )
    for place, number in places:
        x = emit(aten.masked_fill.Scalar, x, place, number)
    return x


def _fill(graph: GraphModule, node: Node) -> None:
    """Make a tensor of one value by its shape, where that is fixed and its type is not that of what it is like."""
    made, like = node.meta["val"], node.args[0].meta["val"]  # type: ignore[union-attr]
    value = node.args[1] if node.target is aten.full_like.default else _FILLS[node.target]
    if made.dtype is not like.dtype and all(isinstance(size, int) for size in made.shape):
        with graph.graph.inserting_before(node):
            filled = graph.graph.call_function(aten.full.default, (list(made.shape), value), {"dtype": made.dtype})
        filled.meta = {**node.meta}
        node.replace_all_uses_with(filled)
        graph.graph.erase_node(node)


_FILLS: Mapping[object, int] = {aten.zeros_like.default: 0, aten.ones_like.default: 1}
_WRITTEN: Mapping[object, Callable[[Emitter, Node], Node]] = {
    aten.einsum.default: _sum,
    aten.im2col.default: _windows,
    aten.nan_to_num.default: _plain_numbers,
}
