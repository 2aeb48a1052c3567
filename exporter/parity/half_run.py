"""Run a graph as if in float16, to find the layers that float16 does not hold, before anything is lowered again.

    every value is rounded to float16; a mean ends where the sum of its values, before it is divided, is beyond float16

Layers that stay float32 get rounded values and give unrounded ones to each other. Inputs are torch tensors in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf, isnan, prod
from operator import getitem
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_aggregate

from edgec.exporter.parity.half_range import LIMIT
from edgec.ir.float_islands import is_kept
from edgec.ir.node_layers import layer_of

aten = torch.ops.aten
_MEANS = (aten.mean.dim, aten.mean.default)
_VIEWS = (aten.reshape.default, aten.view.default, aten.permute.default, aten.transpose.int, aten.expand.default)
_PARTS = (aten.slice.Tensor, aten.select.int, aten.squeeze.dim, aten.unsqueeze.default, aten.clone.default, getitem)
_MOVING = frozenset((*_VIEWS, *_PARTS))
Names = Callable[[Node], bool]


def rounded(value: Any) -> Any:
    """A float32 tensor rounded to float16 and back; anything else as it is."""
    return value.half().float() if isinstance(value, Tensor) and value.dtype is torch.float32 else value


def outputs_in_half(graph: GraphModule, inputs: Sequence[Tensor], keeps: Names) -> tuple[tuple[Tensor, ...], str]:
    """The outputs of a graph in float16, and the layer where its numbers end; empty where they do not.

    Args:
        graph: in float32.
        inputs: of one call.
        keeps: which nodes compute in float32.
    """
    run = _HalfRun(graph, keeps)
    with torch.no_grad():
        outputs = run.run(*inputs)
    return tuple(map(rounded, outputs)), run.ended


def errors_in_half(graph: GraphModule, calls: Sequence[Sequence[Tensor]]) -> Mapping[str, float]:
    """How far each layer is off that gets exact values rounded to float16: of its largest output, by layer.

    What a difference of two large numbers loses was lost where these were rounded: their layers are as much to blame.
    """
    run = _LayerErrors(graph)
    with torch.no_grad():
        for call in calls:
            run.run(*call)
    return run.errors


class _HalfRun(torch.fx.Interpreter):
    def __init__(self, graph: GraphModule, keeps: Names) -> None:
        super().__init__(graph)
        self.ended, self._keeps = "", keeps

    def run_node(self, n: Node) -> Any:
        if n.op != "call_function" or self._keeps(n):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        narrow: Any = map_aggregate(args, rounded)
        result = map_aggregate(n.target(*narrow, **kwargs), rounded)  # type: ignore[operator]
        if not self.ended and _ends(n, result, args):
            self.ended = layer_of(n) or n.name
        return result


def _ends(node: Node, result: Any, given: Any) -> bool:
    """Whether numbers end in a node; where they are not finite already, new infinities count alone."""
    if not isinstance(result, Tensor) or not result.is_floating_point() or not result.numel():
        return False
    if any(_beyond(each) for each in given if isinstance(each, Tensor)):
        return not bool(result.isfinite().all())
    return _beyond(result) or _beyond(result * _terms(node))


def _beyond(value: Tensor) -> bool:
    return value.is_floating_point() and bool(value.numel()) and not float(value.abs().max()) <= LIMIT


def _terms(node: Node) -> int:
    """How many values a mean adds before it divides."""
    if node.target not in _MEANS:
        return 1
    value: Any = node.args[0]
    given: Any = node.args[1] if len(node.args) > 1 else None
    shape = value.meta["val"].shape
    return prod(shape[dim] for dim in given) if given else prod(shape)


class _LayerErrors(torch.fx.Interpreter):
    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.errors: dict[str, float] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op == "call_function" and not is_kept(n) and isinstance(result, Tensor) and result.is_floating_point():
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            narrow: Any = map_aggregate(args, rounded)
            error = _error(result, rounded(n.target(*narrow, **kwargs)))  # type: ignore[operator]
            for layer in filter(None, {layer_of(each) for each in (n, *map(_maker, n.all_input_nodes))}):
                self.errors[layer] = max(self.errors.get(layer, 0.0), error)
        return result


def _maker(node: Node) -> Node:
    """The node that computed a value which others only moved."""
    while node.target in _MOVING and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _error(wanted: Tensor, got: Tensor) -> float:
    finite = wanted.isfinite() & (wanted.abs() <= LIMIT)
    if not bool(finite.any()):
        return 0.0
    largest, gap = float(wanted[finite].abs().max()), float((wanted - got)[finite].abs().max())
    return (inf if isnan(gap) else gap / largest) if largest else 0.0


def named(layers: Collection[str]) -> Names:
    """Which nodes layers name, beside those that are kept already."""
    known = frozenset(layers)
    return lambda node: is_kept(node) or layer_of(node) in known
