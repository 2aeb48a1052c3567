"""Fold a batch norm into the convolution or linear layer before it.

    conv(x, W, b) -> batch_norm(gamma, beta, mean, variance)
    ==>
    conv(x, s W, s (b - mean) + beta)          s = gamma / sqrt(variance + eps), one for each output channel

Rounded apart, a weight's few levels are stretched by the norm afterwards; folded, each output channel gets the scale
that it needs. Legality: a norm over running statistics (evaluation), whose input nothing else reads; weights, bias and
statistics are parameters. Exact. Measured on a residual block: outputs differ by 1e-7 of the largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.attributes import owner_of
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.contract import erase_unread, nodes_of
from edgec.passes.graph.convolution_call import ConvolutionCall, convolutions, set_bias
from edgec.passes.graph.weight_edits import constant, edit, is_constant, parameter

aten = torch.ops.aten
NORM = aten.batch_norm.default


@dataclass(frozen=True)
class NormCall:
    """A batch norm over running statistics: ``y = x * factor + shift``, each float32 [C]."""

    node: Node
    x: Node
    factor: Tensor
    shift: Tensor

    @classmethod
    def of(cls, graph: GraphModule, node: Node) -> NormCall | None:
        """The norm of a node; None where it uses the batch's own statistics, or computed ones."""
        given: Any = node.args
        x, gamma, beta, mean, variance, training, _, eps = given[:8]
        if training or mean is None or variance is None:
            return None
        if not all(each is None or is_constant(each) for each in (gamma, beta, mean, variance)):
            return None
        with torch.no_grad():
            factor = torch.rsqrt(constant(graph, variance) + eps)
            factor = factor if gamma is None else factor * constant(graph, gamma)
            shift = -constant(graph, mean) * factor
            return cls(node, x, factor, shift if beta is None else shift + constant(graph, beta))


@dataclass(frozen=True)
class FoldBatchNorm:
    """Multiply weights by the factors of the batch norms that follow; exact."""

    name: str = "fold_batch_norm"
    effect: Effect = Effect.EXACT

    def concerns(self, program: Program) -> bool:
        """Whether there is a batch norm."""
        return bool(nodes_of(program.graph, NORM))

    def requires(self, program: Program) -> None:
        """No requirement: other norms are left as they are."""

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Fold each norm that is legal."""
        known = {call.node: call for call in (*convolutions(graph), *_linear_layers(graph))}
        for node in nodes_of(graph, NORM):
            norm = NormCall.of(graph, node)
            call = None if norm is None else known.get(norm.x)
            if norm is not None and call is not None and _is_legal(call):
                _fold(graph, call, norm)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No guarantee: a norm may follow other operators."""


def _linear_layers(graph: GraphModule) -> list[ConvolutionCall]:
    """Linear layers over rows [B, C], which are convolutions of one value."""
    rows = [node for node in nodes_of(graph, aten.linear.default) if node.meta["val"].dim() == 2]
    given: list[Any] = [(node, *node.args) for node in rows]
    return [ConvolutionCall(node, x, weight, bias[0] if bias else None, 1, False) for node, x, weight, *bias in given]


def _is_legal(call: ConvolutionCall) -> bool:
    return len(call.node.users) == 1 and is_constant(call.weight) and (call.bias is None or is_constant(call.bias))


def _fold(graph: GraphModule, call: ConvolutionCall, norm: NormCall) -> None:
    node = call.node
    if call.bias is None:
        with graph.graph.inserting_before(node):
            set_bias(node, parameter(graph, _bias_name(graph, call.weight, node), norm.shift, like=call.weight))
    else:
        edit(graph, node, 2, lambda bias: bias * norm.factor + norm.shift)
    edit(graph, node, 1, lambda weight: call.scaled(weight, norm.factor))
    norm.node.replace_all_uses_with(node)
    erase_unread(norm.node)


def _bias_name(graph: GraphModule, weight: Node, node: Node) -> str:
    """The name of a new bias: beside the weight where that place is free."""
    leaf = next(each for each in (weight, *weight.all_input_nodes) if each.op == "get_attr")
    owner, name = owner_of(graph, str(leaf.target))
    beside = f"{str(leaf.target).removesuffix(name)}bias"
    return beside if not hasattr(owner, "bias") else f"{beside}_{node.name}"
