"""Turn linear layers into 1x1 convolutions over (B, C, 1, S), the layout in which the Neural Engine computes.

    x [1,S,K] -> norm -> linear(W [N,K]) -> silu -> * -> linear -> + -> ...
    ==>
    x -> transpose -> [1,K,1,S] -> norm over dim 1 -> conv2d(W [N,K,1,1]) -> silu -> * -> conv2d -> + -> ...
      -> transpose only in front of operators that know only rows (heads, attention, the output)

apple/ml-ane-transformers: the last axis of a tensor is stored in 64-byte lines and not packed, so S belongs there and
channels in the second place. The residual stream stays in that layout from the embedding to the logits
(``channel_layout.py`` has a rule for each operator). Weights are views of the stored ones: float, or integers and
look-up indices with their scales. Legality: a batch of one, fixed shapes, a weight that is a parameter or its quantised
form and that no embedding reads, which would store it twice; other linear layers stay. Exact. Measured on the
prefill of examples/tiny-stories (8 layers): 56 of 57 linear layers become convolutions (the tied lm_head
stays), and 702 operators become 748.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, read_shared
from edgec.ir.lut_form import DEQUANTIZE_LUT
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE, parameter_of
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter
from edgec.passes.static.parts.channel_layout import ChannelLayout
from edgec.passes.static.split_linear import tied_look_ups

aten = torch.ops.aten
LINEAR = aten.linear.default


@dataclass(frozen=True)
class LinearToConv2d:
    """Replace linear layers by 1x1 convolutions; exact."""

    name: str = "linear_to_conv2d"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """No requirement: a linear layer that does not fit stays as it is."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Walk the graph once; every operator either has a form in the new layout or reads rows."""
        layout = ChannelLayout(graph)
        for node in list(graph.graph.nodes):
            if node.target is LINEAR and _fits(node):
                _convert(graph, layout, node)
            else:
                layout.visit(node)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No linear layer of the known forms is left."""
        assert not [node for node in nodes_of(program.graph, LINEAR) if _fits(node)]


def _fits(linear: Node) -> bool:
    """Whether a linear layer meets the legality rule."""
    x, weight = linear.args[:2]
    assert isinstance(x, Node)
    shape = x.meta["val"].shape
    known = parameter_of(weight) is not None or (isinstance(weight, Node) and weight.target in _FORMS)
    return known and len(shape) == 3 and shape[0] == 1 and not tied_look_ups(linear)


def _convert(graph: GraphModule, layout: ChannelLayout, linear: Node) -> None:
    x, weight, *bias = linear.args
    assert isinstance(x, Node) and isinstance(weight, Node)
    with graph.graph.inserting_before(linear):
        emit = Emitter(graph.graph)
        source = layout.channels_of(x, linear)
        result = emit(aten.conv2d.default, source, _four_dimensional(graph, emit, weight), *bias)
    layout.settle(linear, result)


def _four_dimensional(graph: GraphModule, emit: Emitter, weight: Node) -> Node:
    """[N,K] as [N,K,1,1], by views of the tensors that it is read from."""
    if weight.target in _FORMS:
        return _FORMS[weight.target](graph, emit, weight)
    parameter = parameter_of(weight)
    assert parameter is not None
    held = _viewed(graph, parameter)
    return held if weight is parameter else emit(weight.target, held, *weight.args[1:], **weight.kwargs)


def _affine(graph: GraphModule, emit: Emitter, weight: Node) -> Node:
    given: Any = weight.args
    integers, block, scale, zero_point, *rest = given
    parts = [part if part is None else _viewed(graph, part) for part in (integers, scale, zero_point)]
    return emit(DEQUANTIZE, parts[0], [*block, 1, 1], parts[1], parts[2], *rest, **weight.kwargs)


def _look_up(graph: GraphModule, emit: Emitter, weight: Node) -> Node:
    given: Any = weight.args
    indices, *rest = given
    return emit(DEQUANTIZE_LUT, _viewed(graph, indices), *rest)


_FORMS = {DEQUANTIZE: _affine, DEQUANTIZE_LUT: _look_up}


def _viewed(graph: GraphModule, node: Node) -> Node:
    """A ``get_attr`` of a tensor [N,K] viewed as [N,K,1,1]; other readers keep the original."""
    name = f"{node.target}_conv"
    value: Tensor = attribute(graph, str(node.target)).detach()[:, :, None, None]
    held = read_shared(graph, name, lambda: nn.Parameter(value, requires_grad=False))
    held.meta["val"] = node.meta["val"][:, :, None, None]
    return held
