"""Follow attention's values from the projection that makes them to the layers that read the result.

    linear [S, ... | heads x width | ...] -> slice? -> view -> transpose -> attention -> reshape -> linear

Attention takes weighted sums of values, head by head, so that any matrix on a head's values may be undone after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.attention import OPERATOR, AttentionCall
from edgec.ir.quantized_form import parameter_of
from edgec.passes.contract import nodes_of

aten = torch.ops.aten
_RESHAPES = frozenset({aten.view.default, aten.reshape.default})


@dataclass(frozen=True)
class ValuePath:
    """The path of one projection's values.

    Attributes:
        projection: the linear layer that makes the values.
        rows: its output channels that are values.
        width: of a head.
        heads: number of KV heads.
        readers: the linear layers after every attention that reads the values.
    """

    projection: Node
    rows: slice
    width: int
    heads: int
    readers: tuple[Node, ...]


def value_paths(graph: GraphModule) -> list[ValuePath]:
    """A path for each projection of values whose every reader is known; layers that share values share a path."""
    readers: dict[Node, list[Node]] = {}
    for node in nodes_of(graph, OPERATOR):
        readers.setdefault(AttentionCall.of(node).v, []).append(node)
    paths = (_path(values, attentions) for values, attentions in readers.items())
    return [path for path in paths if path is not None]


def _path(values: Node, attentions: list[Node]) -> ValuePath | None:
    source = _projection(values)
    readers = [_layers(attention) for attention in attentions]
    if source is None or any(layers is None for layers in readers):
        return None
    projection, rows = source
    _, heads, _, width = values.meta["val"].shape
    if rows.stop - rows.start != int(heads) * int(width):
        return None
    return ValuePath(projection, rows, int(width), int(heads), tuple(n for layers in readers for n in layers or ()))


def _projection(values: Node) -> tuple[Node, slice] | None:
    """The layer that makes values, and which of its channels they are."""
    view: Any = values.args[0] if _swaps_heads(values) else None
    if view is None or view.target not in _RESHAPES or len(view.users) != 1:
        return None
    source: Any = view.args[0]
    first, last = 0, int(source.meta["val"].shape[-1])
    if source.target is aten.slice.Tensor and len(source.users) == 1 and source.args[1] in (2, -1):
        first, last, source = source.args[2], source.args[2] + last, source.args[0]
    plain = source.target is aten.linear.default and parameter_of(source.args[1]) is not None
    alone = last - first < int(source.meta["val"].shape[-1]) or len(source.users) == 1
    return (source, slice(first, last)) if plain and alone else None


def _swaps_heads(node: Node) -> bool:
    dims: Any = node.args[1:3]
    return node.target is aten.transpose.int and set(dims) == {1, 2}


def _layers(attention: Node) -> list[Node] | None:
    """The linear layers that read attention's result, heads side by side; None where anything else does."""
    layers: list[Node] = []
    for reshape in attention.users:
        shape: Any = reshape.args[1]
        if reshape.target not in _RESHAPES or len(shape) != 3:
            return None
        for user in reshape.users:
            if user.target is not aten.linear.default or parameter_of(user.args[1]) is None:
                return None
            layers.append(user)
    return layers
