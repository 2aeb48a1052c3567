"""The convolutions of a captured graph, whatever their number of dimensions, by the names of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.passes.contract import nodes_of

aten = torch.ops.aten
# The place of ``groups`` among the arguments, and whether the operator is transposed.
_FORMS: Mapping[Any, tuple[int, bool]] = {
    aten.conv1d.default: (6, False),
    aten.conv1d.padding: (6, False),
    aten.conv2d.default: (6, False),
    aten.conv2d.padding: (6, False),
    aten.conv3d.default: (6, False),
    aten.conv_transpose1d.default: (6, True),
    aten.conv_transpose2d.input: (6, True),
}
_WEIGHT, _BIAS = 1, 2


@dataclass(frozen=True)
class ConvolutionCall:
    """A convolution.

    Attributes:
        node: the operator's call.
        x: its input, [B, C, ...].
        weight: [out, in / groups, ...], transposed [in, out / groups, ...].
        bias: [out], or None.
        groups: how many parts of the channels are convolved apart.
        transposed: whether it is the gradient of a convolution.
    """

    node: Node
    x: Node
    weight: Node
    bias: Node | None
    groups: int
    transposed: bool

    @classmethod
    def of(cls, node: Node) -> ConvolutionCall:
        """The call of a node that is a convolution."""
        place, transposed = _FORMS[node.target]
        given: Any = node.args
        bias: Any = given[_BIAS] if len(given) > _BIAS else node.kwargs.get("bias")
        groups = given[place] if len(given) > place else 1
        return cls(node, given[0], given[_WEIGHT], bias, groups, transposed)

    @property
    def channel(self) -> int:
        """The weight's dimension that counts outputs (of a group, where it is transposed)."""
        return int(self.transposed)

    def scaled(self, weight: Tensor, factors: Tensor) -> Tensor:
        """The weight whose outputs are ``factors`` [out] times as large."""
        if not self.transposed:
            return weight * factors.reshape(-1, *[1] * (weight.dim() - 1))
        parts = factors.reshape(self.groups, 1, -1, *[1] * (weight.dim() - 2))
        result: Tensor = (weight.unflatten(0, (self.groups, -1)) * parts).flatten(0, 1)
        return result


def convolutions(graph: GraphModule) -> list[ConvolutionCall]:
    """The convolutions of a graph, in order."""
    return [ConvolutionCall.of(node) for node in nodes_of(graph, *_FORMS)]


def set_bias(node: Node, bias: Node) -> None:
    """Give a convolution another bias."""
    args: list[Any] = [*node.args]
    node.kwargs = {name: value for name, value in node.kwargs.items() if name != "bias"}
    node.args = (*args[:_BIAS], bias, *args[_BIAS + 1 :])
