"""Compute a convolution over patches that do not overlap as a linear layer, as image encoders begin.

    x [1, C, H, W] -> conv2d(weight [O, C, P, Q], stride (P, Q))                                  -> [1, O, H/P, W/Q]
    ==>
    x -> view [C, H/P, P, W/Q, Q] -> permute -> [1, H/P * W/Q, C * P * Q] -> linear -> transpose  -> [1, O, H/P, W/Q]

    x [N, C, F, P, Q] -> conv3d(weight [O, C, F, P, Q])                                           -> [N, O, 1, 1, 1]
    ==>
    x -> reshape [N, C * F * P * Q] -> linear -> reshape                                          -> [N, O, 1, 1, 1]

ExecuTorch's portable convolution takes one product at a time, and has none of three dimensions; linear layers run on
edgec's kernels or XNNPACK, and can be rounded. Legality: one group, no padding, no dilation, fixed sizes, and a weight
that is a parameter; in two dimensions one image, and the stride is the kernel's size; in three the kernel is as large
as the patch. Exact. Measured on a tiny random CLIP of 24 x 24 pixels: equal to 1e-7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.fuse.convolution_to_linear import matrix_parameter, stored_weight
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_NOTHING: tuple[Any, ...] = ("valid", [0, 0], [0], 0)


@dataclass(frozen=True)
class _Convolution:
    """The arguments of ``aten.conv2d`` and ``aten.conv3d``, by the operators' own names."""

    x: Node
    weight: Node
    bias: Node | None = None
    stride: tuple[int, ...] = (1, 1)
    padding: Any = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1


@dataclass(frozen=True)
class PatchesToLinear:
    """Replace convolutions over patches by linear layers; exact.

    Attributes:
        planes: those of two dimensions as well; the Neural Engine has these, and none of three.
        points: those of one pixel as well, which lie between other convolutions where XNNPACK takes these.
    """

    planes: bool = True
    points: bool = True
    name: str = "patches_to_linear"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other convolutions are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each convolution that is legal."""
        planes = (aten.conv2d.default, aten.conv2d.padding) if self.planes else ()
        for node in nodes_of(graph, *planes, aten.conv3d.default):
            arguments: Any = node.args
            call = _Convolution(*arguments)
            patches = node.target is aten.conv3d.default
            if (_is_patch if patches else _is_legal)(graph, call) and (self.points or not _is_point(graph, call)):
                with graph.graph.inserting_before(node):
                    result = (_patch_product if patches else _linear)(graph, Emitter(graph.graph), call)
                result.meta = {**node.meta, "val": result.meta["val"]}
                node.replace_all_uses_with(result)
                graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: no graph is illegal afterwards."""


def _is_legal(graph: GraphModule, call: _Convolution) -> bool:
    weight, shape = stored_weight(graph, call.weight), call.x.meta["val"].shape
    if weight is None or not all(isinstance(size, int) for size in shape) or len(shape) != 4 or shape[0] != 1:
        return False
    kernel = list(weight.shape[2:])
    padding = list(call.padding) if isinstance(call.padding, tuple) else call.padding
    plain = call.groups == 1 and set(call.dilation) == {1} and padding in _NOTHING
    return plain and list(call.stride) == kernel and not any(s % k for s, k in zip(shape[2:], kernel, strict=True))


def _is_point(graph: GraphModule, call: _Convolution) -> bool:
    weight = stored_weight(graph, call.weight)
    return weight is not None and weight[0].numel() == weight.shape[1]


def _is_patch(graph: GraphModule, call: _Convolution) -> bool:
    """Whether a convolution of three dimensions takes each of its inputs as a whole."""
    weight, shape = stored_weight(graph, call.weight), call.x.meta["val"].shape
    whole = weight is not None and list(shape[1:]) == list(weight.shape[1:]) and isinstance(shape[0], int)
    return whole and call.groups == 1 and not any(call.padding)


def _patch_product(graph: GraphModule, emit: Emitter, call: _Convolution) -> Node:
    weight = stored_weight(graph, call.weight)
    assert weight is not None
    count = int(call.x.meta["val"].shape[0])
    flat = emit(aten.reshape.default, call.x, [count, weight[0].numel()])
    matrix = matrix_parameter(graph, emit, call.weight, weight.flatten(1))
    seen = emit(aten.linear.default, flat, matrix, *([call.bias] if call.bias is not None else []))
    return emit(aten.reshape.default, seen, [count, weight.shape[0], 1, 1, 1])


def _linear(graph: GraphModule, emit: Emitter, call: _Convolution) -> Node:
    weight = stored_weight(graph, call.weight)
    assert weight is not None
    out, channels, high, wide = weight.shape
    _, _, height, width = (int(size) for size in call.x.meta["val"].shape)
    rows, columns = height // high, width // wide
    patches = emit(aten.view.default, call.x, [channels, rows, high, columns, wide])
    patches = emit(aten.permute.default, patches, [1, 3, 0, 2, 4])
    flat = emit(aten.reshape.default, patches, [1, rows * columns, channels * high * wide])
    matrix = matrix_parameter(graph, emit, call.weight, weight.flatten(1))
    seen = emit(aten.linear.default, flat, matrix, *([call.bias] if call.bias is not None else []))
    turned = emit(aten.transpose.int, seen, 1, 2)
    return emit(aten.reshape.default, turned, [1, out, rows, columns])
