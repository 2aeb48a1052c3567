"""Write float convolutions over rows that lie next to integers as convolutions over images.

    dequantize_per_tensor -> conv1d(x [B, C, T], W [O, I, K]) -> relu -> quantize_per_tensor
    ==>
    dequantize_per_tensor -> unsqueeze -> conv2d(x [B, C, T, 1], W [O, I, K, 1]) -> squeeze -> relu -> ...

ExecuTorch's own pass that does so takes the ranges beside the convolution for the convolution's own, though it computes
in float: it fails with an assertion behind integers, and before them XNNPACK refuses the program when it is loaded.
Convolutions in integers are left to it. Legality: a float weight that nothing else reads. Exact. Of silero-vad's six
convolutions four stay in float: its program could not be loaded before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from edgec.ir.attributes import attribute, set_parameter
from edgec.ir.fixed_ranges import DEQUANTIZE_FIXED, QUANTIZE_FIXED
from edgec.passes.contract import nodes_of
from edgec.passes.graph.emit import Emitter

aten = torch.ops.aten
_OVER_IMAGES: Mapping[Any, Any] = {
    aten.conv1d.default: aten.conv2d.default,
    aten.conv1d.padding: aten.conv2d.padding,
}
_ACTIVATIONS = (aten.relu.default, aten.hardtanh.default)
# What a second dimension of one value has of stride, padding and dilation.
_BESIDE = {3: 1, 4: 0, 5: 1}


def write_out_float_rows(graph: GraphModule) -> None:
    """Replace each such convolution, in place."""
    for node in nodes_of(graph, *_OVER_IMAGES):
        weight: Any = node.args[1]
        if weight.op == "get_attr" and len(weight.users) == 1 and _lies_beside_integers(node):
            _write(graph, node, weight)


def _lies_beside_integers(node: Node) -> bool:
    if node.all_input_nodes[0].target is DEQUANTIZE_FIXED:
        return True
    readers = list(node.users)
    if len(readers) == 1 and readers[0].target in _ACTIVATIONS:
        readers = list(readers[0].users)
    return bool(readers) and all(reader.target is QUANTIZE_FIXED for reader in readers)


def _write(graph: GraphModule, node: Node, weight: Node) -> None:
    target = str(weight.target)
    values = attribute(graph, target).detach().unsqueeze(-1)
    set_parameter(graph, target, nn.Parameter(values, requires_grad=False))
    weight.meta["val"] = weight.meta["val"].unsqueeze(-1)
    given: list[Any] = [_beside(place, value) for place, value in enumerate(node.args)]
    with graph.graph.inserting_before(node):
        emit = Emitter(graph.graph)
        given[0] = emit(aten.unsqueeze.default, given[0], -1)
        made = emit(aten.squeeze.dim, emit(_OVER_IMAGES[node.target], *given, **node.kwargs), -1)
    node.replace_all_uses_with(made)
    graph.graph.erase_node(node)


def _beside(place: int, value: Any) -> Any:
    """An argument of two dimensions; a padding that is a word is one for all."""
    if place not in _BESIDE or isinstance(value, str):
        return value
    return [*(value if isinstance(value, list | tuple) else [value]), _BESIDE[place]]
