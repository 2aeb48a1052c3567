"""The one form of quantised weights in the graph: building blocks shared by the quantising passes.

    weight_int int8 [N,K], weight_scale float32 [N,K/g], weight_zero_point int8 [N,K/g]
      -> torchao.dequantize_affine([1,g], qmin, qmax) -> aten.linear | aten.embedding

Groups with minimums are ``edgec::dequantize_minimum``'s (minimum_form.py). The others are, argument by argument, the
nodes that torch.export prints for torchao's own quantised layers.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
import torchao.quantization.quant_primitives  # noqa: F401  (registers torch.ops.torchao)
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, remove
from edgec.ir.minimum_form import DEQUANTIZE_MINIMUM
from edgec.ir.weight_decision import Decision

aten = torch.ops.aten
DEQUANTIZE = torch.ops.torchao.dequantize_affine.default
WEIGHT_FORMS = frozenset({DEQUANTIZE, DEQUANTIZE_MINIMUM})
"""What makes a matrix of integers, scales and zero points or minimums."""
QUANTIZE = torch.ops.torchao.quantize_affine.default
CHOOSE = torch.ops.torchao.choose_qparams_affine.default
RECORD = "edgec_quantization"
_INT8 = (torch.int8, -128, 127)
_EVEN_INT8 = (torch.int8, -127, 127)


def parameter_of(node: object) -> Node | None:
    """The ``get_attr`` that a weight argument reads, perhaps through a cast to float32; None when it is computed."""
    if isinstance(node, Node) and node.target is aten.to.dtype:
        node = node.args[0]
    return node if isinstance(node, Node) and node.op == "get_attr" else None


def parameter_name(node: Node) -> str:
    """The parameter's name in the model: the capture's wrapper prefix removed."""
    return str(node.target).removeprefix("decoder.")


def dequantized(graph: GraphModule, decision: Decision) -> Node:
    """Dequantise the integers of a decision, at the current insertion point."""
    assert decision.used is not None
    integers, scale, zero_point = (graph.graph.get_attr(name) for name in decision.buffers)
    block, bounds = [1, decision.used.block(decision.shape[1])], decision.used.held
    if not decision.used.symmetric:
        return graph.graph.call_function(DEQUANTIZE_MINIMUM, (integers, block, scale, zero_point))
    return graph.graph.call_function(DEQUANTIZE, (integers, block, scale, zero_point, torch.int8, *bounds))


def quantize_input(graph: GraphModule, source: Node, rank: int, width: int, group: int = 0) -> Node:
    """Quantise an activation dynamically and dequantise it, at the current insertion point.

    Args:
        graph: the owner of the nodes.
        source: float [..., width].
        rank: its number of dimensions.
        width: its last one.
        group: values of a token that share a scale, without a zero point; 0: one scale and zero point for each token.
    """
    call = graph.graph.call_function
    kind, bounds = ("SYMMETRIC", _EVEN_INT8) if group else ("ASYMMETRIC", _INT8)
    block = [1] * (rank - 1) + [group or width]
    chosen = call(CHOOSE, (source, kind, block, *bounds, None, None, torch.int8))
    scale, zero_point = call(operator.getitem, (chosen, 0)), call(operator.getitem, (chosen, 1))
    quantized = call(QUANTIZE, (source, block, scale, zero_point, *bounds))
    return call(DEQUANTIZE, (quantized, block, scale, zero_point, *bounds))


def rounded_input(node: object) -> tuple[Node, int] | None:
    """What ``quantize_input`` rounded, and its group, where this node is the result; None for any other."""
    quantised = node.args[0] if isinstance(node, Node) and node.target is DEQUANTIZE else None
    if not isinstance(quantised, Node) or quantised.target is not QUANTIZE:
        return None
    source, block, scale = quantised.args[:3]
    chosen = scale.args[0] if isinstance(scale, Node) and scale.all_input_nodes else None
    if not isinstance(source, Node) or not isinstance(chosen, Node) or chosen.target is not CHOOSE:
        return None
    sizes: list[int] = list(block)  # type: ignore[arg-type]
    if chosen.args[0] is not source or chosen.args[2] != block or any(size != 1 for size in sizes[:-1]):
        return None
    groups: dict[Any, int] = {("SYMMETRIC", _EVEN_INT8): sizes[-1], ("ASYMMETRIC", _INT8): 0}
    kind = (chosen.args[1], tuple(quantised.args[4:7]))
    return (source, groups[kind]) if kind in groups else None


def drop_if_unused(graph: GraphModule, *nodes: Node | None) -> None:
    """Erase nodes that nothing reads, and free a parameter with its last reader, so that float copies don't pile up."""
    for node in dict.fromkeys(nodes):
        if node is None or node.users:
            continue
        graph.graph.erase_node(node)
        read_elsewhere = any(n.op == "get_attr" and n.target == node.target for n in graph.graph.nodes)
        if node.op == "get_attr" and not read_elsewhere:
            remove(graph, str(node.target))


def record(graph: GraphModule, decisions: Iterable[Decision]) -> None:
    """Add decisions to those that earlier passes recorded."""
    graph.meta[RECORD] = (*decisions_of(graph), *decisions)


def decisions_of(graph: GraphModule) -> tuple[Decision, ...]:
    """What the quantising passes decided, tensor by tensor, in order of application."""
    decisions: tuple[Decision, ...] = graph.meta.get(RECORD, ())
    return decisions


def matrix(graph: GraphModule, parameter: Node) -> Tensor:
    """The tensor that a ``get_attr`` node reads, without gradient."""
    value: Tensor = attribute(graph, str(parameter.target))
    return value.detach()
