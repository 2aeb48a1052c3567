"""Factors that LiteRT's converter would multiply into matrices, kept out of its reach.

    linear(x * s, W), s all of one value    ==>   linear(x * s', W)              one value of s' is the next float
    view(linear(x, W)) * c                  ==>   y * 3c/4 + y * c/4             y = view(linear(x, W))

It makes W * s and W * c of both, which the integers of W do not fit: a second copy, in float. The soft cap of
Gemma's logits is such a c; norms of random models, and no others, have such an s.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.onnx.onnx_form import constant
from edgec.ir.attributes import attribute
from edgec.passes.contract import clean, nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_PRODUCTS: Final = (aten.mul.Tensor, aten.mul.Scalar)
_QUOTIENTS: Final = (aten.div.Tensor, aten.div.Scalar)
_VIEWS: Final = (
    *(aten.view.default, aten.reshape.default, aten.squeeze.dim, aten.unsqueeze.default, aten.slice.Tensor),
    *(aten.transpose.int, aten.permute.default),
)


def keep_factors_apart(graph: GraphModule) -> None:
    """Rewrite such products in place."""
    for node in nodes_of(graph, *_PRODUCTS, *_QUOTIENTS):
        with graph.graph.inserting_before(node):
            _make_uneven(graph, node)
            _split(graph, node)
    clean(graph)


def _make_uneven(graph: GraphModule, node: Node) -> None:
    """Let a constant of one value have a second one, beside which it is the next float."""
    for held in node.all_input_nodes:
        value = attribute(graph, str(held.target)) if held.op == "get_attr" else None
        if value is not None and value.dtype == torch.float32 and value.numel() > 1 and _is_uniform(value):
            uneven = value.detach().clone().reshape(-1)
            uneven[-1] = torch.nextafter(uneven[-1], uneven[-1] * 2 + 1)
            made = constant(graph, held, f"{held.target}_uneven", uneven.reshape(value.shape))
            node.replace_input_with(held, made)


def _is_uniform(value: Tensor) -> bool:
    return bool((value == value.reshape(-1)[0]).all())


def _split(graph: GraphModule, node: Node) -> None:
    """Use a layer's outputs twice, so that no factor of one use is the layer's."""
    source, factor = _factor(graph, node)
    if source is None or not _is_layer(source):
        return
    emit = Emitter(graph.graph)
    parts = [emit(aten.mul.Scalar, source, factor * part) for part in (0.75, 0.25)]
    node.replace_all_uses_with(emit(aten.add.Tensor, *parts))


def _factor(graph: GraphModule, node: Node) -> tuple[Node | None, float]:
    """What is multiplied by one number, and the number; None where there is no such."""
    given: tuple[Any, ...] = tuple(_number(graph, each) for each in node.args[:2])
    numbers = [each for each in given if isinstance(each, int | float)]
    sources = [each for each in given if isinstance(each, Node)]
    if len(numbers) != 1 or len(sources) != 1:
        return None, 0.0
    if node.target in _PRODUCTS:
        return sources[0], float(numbers[0])
    return (sources[0], 1 / float(numbers[0])) if given[0] is sources[0] and numbers[0] else (None, 0.0)


def _number(graph: GraphModule, given: Any) -> Any:
    if isinstance(given, Node) and given.op == "get_attr":
        value = attribute(graph, str(given.target))
        return float(value) if value.numel() == 1 else None
    return given


def _is_layer(node: Node) -> bool:
    """Whether a value is a linear layer's, perhaps under another shape."""
    while node.target in _VIEWS:
        node = node.all_input_nodes[0]
    return node.target is aten.linear.default
