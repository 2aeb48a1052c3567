"""Compute a convolution along the time of features as a linear layer over neighbouring frames.

    x [1, C, L] -> conv1d(weight [O, C, K], stride s)                                            -> [1, O, M]
    ==>
    x -> transpose -> pad -> frames 0, s, 2s, ... | 1, s + 1, ... | ... (K slices) -> cat [1, M, K * C]
      -> linear(weight [O, K * C]) -> transpose                                                  -> [1, O, M]

ExecuTorch's portable convolution takes one product at a time; linear layers run on edgec's kernels or XNNPACK, and can
be rounded. Legality: one group, and a weight and bias that are parameters; a length may vary where nothing is padded;
exact. Measured on a tiny random Whisper of two convolutions: states of the encoder differ by 4e-7 from transformers'.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten


@dataclass(frozen=True)
class _Convolution:
    """The arguments of ``aten.conv1d``, by the operator's own names."""

    x: Node
    weight: Node
    bias: Node | None = None
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1


@dataclass(frozen=True)
class ConvolutionToLinear:
    """Replace convolutions along time by linear layers; exact."""

    name: str = "convolution_to_linear"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: other convolutions are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace each convolution that is legal."""
        for node in nodes_of(graph, aten.conv1d.default):
            arguments: Any = node.args
            call = _Convolution(*arguments)
            if _is_legal(graph, call):
                with graph.graph.inserting_before(node):
                    result = _linear(graph, Emitter(graph.graph), call)
                result.meta = {**node.meta, "val": result.meta["val"]}
                node.replace_all_uses_with(result)
                graph.graph.erase_node(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: no graph is illegal afterwards."""


def _is_legal(graph: GraphModule, call: _Convolution) -> bool:
    value = call.x.meta["val"]
    known = isinstance(value.shape[-1], int) or not call.padding[0]
    stored = all(node is None or stored_weight(graph, node) is not None for node in (call.weight, call.bias))
    return call.groups == 1 and value.dim() == 3 and known and stored


def stored_weight(graph: GraphModule, node: Node) -> Tensor | None:
    """The tensor of a parameter, as it is stored or after a cast."""
    source = node.all_input_nodes[0] if node.target is aten.to.dtype else node
    value = attribute(graph, str(source.target)) if source.op == "get_attr" else None
    return value if isinstance(value, Tensor) else None


def _linear(graph: GraphModule, emit: Emitter, call: _Convolution) -> Node:
    weight = stored_weight(graph, call.weight)
    assert weight is not None
    matrix = matrix_parameter(graph, emit, call.weight, weight.permute(0, 2, 1).flatten(1).contiguous())
    frames = emit(aten.transpose.int, call.x, 1, 2)
    if call.padding[0]:
        frames = emit(aten.constant_pad_nd.default, frames, [0, 0, call.padding[0], call.padding[0]], 0.0)
    stride, reach = call.stride[0], call.dilation[0] * (weight.shape[2] - 1)
    taps = [
        emit(aten.slice.Tensor, frames, 1, first, _end(emit, frames, reach - first), stride)
        for first in range(0, reach + 1, call.dilation[0])
    ]
    joined = emit(aten.cat.default, taps, 2) if len(taps) > 1 else taps[0]
    out = emit(aten.linear.default, joined, matrix, *([call.bias] if call.bias is not None else []))
    return emit(aten.transpose.int, out, 1, 2)


def _end(emit: Emitter, frames: Node, left: int) -> int | Node:
    """Where a slice of frames ends that leaves the last ones out."""
    length = emit.size(frames, 1)
    return length - left if isinstance(length, int) else emit(operator.sub, length, left)


def matrix_parameter(graph: GraphModule, emit: Emitter, weight: Node, value: Tensor) -> Node:
    """The matrix of a weight as a separate parameter, and the node that reads it in float32."""
    source = weight.all_input_nodes[0] if weight.target is aten.to.dtype else weight
    name = f"{source.target}".replace(".", "_") + "_matrix"
    graph.register_parameter(name, nn.Parameter(value, requires_grad=False))
    node = emit.graph.get_attr(name)
    node.meta["val"] = weight.meta["val"].fake_mode.from_tensor(value, static_shapes=True)
    return node if value.dtype == torch.float32 else emit(aten.to.dtype, node, torch.float32)
