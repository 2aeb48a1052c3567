"""Cut the rows of a fused projection that nothing reads.

    x -> linear(W [q + k + v, H]) -> slice q            ==>      x -> linear(W[:q]) -> q

Legality: every reader of the linear layer is a slice of its last dimension with fixed bounds, and the weight has no
other reader. The narrowed weight is a view of the stored one: nothing is copied. Exact. Phi-3 computes q, k and v by
one matrix; where its keys and values come from another layer, this keeps q: 2/3 of the rows go in a model without
grouped heads.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, owner_of
from edgec.ir.quantized_form import parameter_of
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
NARROWED = "edgec_narrowed"
"""In a graph's meta: parameter -> the rows of the model's own tensor that it still holds."""


@dataclass(frozen=True)
class _Slice:
    """A slice of a linear layer's output, and the range of features that it reads."""

    node: Node
    start: int
    end: int


def narrow_linears(graph: GraphModule) -> None:
    """Narrow every linear layer of which only a part is read; dead nodes must have been removed."""
    for linear in nodes_of(graph, aten.linear.default):
        slices = [_slice(user, linear) for user in linear.users]
        known = [each for each in slices if each is not None]
        if known and len(known) == len(slices) and _owned(graph, linear):
            start, end = min(each.start for each in known), max(each.end for each in known)
            if end - start < linear.meta["val"].shape[-1]:
                _narrow(graph, linear, known, start, end)


def _slice(user: Node, linear: Node) -> _Slice | None:
    """The range that ``slice(linear, -1, start, end)`` reads, or None for another reader."""
    if user.target is not aten.slice.Tensor or not 3 <= len(user.args) <= 4:
        return None
    shape = linear.meta["val"].shape
    dim, start, end = (*user.args[1:], None)[:3]
    fixed = isinstance(dim, int) and isinstance(start, int | None) and isinstance(end, int | None)
    if not fixed or dim % len(shape) != len(shape) - 1:  # type: ignore[operator]
        return None
    first, last, _ = slice(start, end).indices(int(shape[-1]))
    return _Slice(user, first, last)


def _owned(graph: GraphModule, linear: Node) -> bool:
    """Whether weight and bias are parameters that only this layer reads."""
    for argument in linear.args[1:]:
        parameter = parameter_of(argument)
        if parameter is None and argument is not None:
            return False
        readers = [n for n in graph.graph.nodes if n.op == "get_attr" and parameter and n.target == parameter.target]
        if len(readers) > 1 or any(len(node.users) > 1 for node in (parameter, argument) if isinstance(node, Node)):
            return False
    return True


def _narrow(graph: GraphModule, linear: Node, slices: list[_Slice], start: int, end: int) -> None:
    for argument in linear.args[1:]:
        parameter = parameter_of(argument)
        if parameter is not None:
            target = str(parameter.target)
            value: Tensor = attribute(graph, target)
            graph.meta[NARROWED] = {**graph.meta.get(NARROWED, {}), target: (start, end)}
            setattr(*owner_of(graph, target), nn.Parameter(value.detach()[start:end], requires_grad=False))
            for node in (parameter, argument):
                node.meta.update(val=node.meta["val"].narrow(0, start, end - start))  # type: ignore[union-attr]
    linear.meta["val"] = linear.meta["val"].narrow(-1, start, end - start)
    for each in slices:
        if (each.start, each.end) == (start, end):
            each.node.replace_all_uses_with(linear)
            graph.graph.erase_node(each.node)
        else:
            each.node.args = (linear, -1, each.start - start, each.end - start)
