"""Find where a scale per channel may move from a layer's weights into what feeds it, without changing any number.

    norm(g) -> linear(W), linear(W2)      norm(g / s) -> linear(W s), linear(W2 s)
    act(gate) * linear(U) -> linear(W)    act(gate) * linear(U / s) -> linear(W s)
    linear(V) -> attention -> linear(W)   linear(V / s) -> attention -> linear(W s)

Legality: every reader of the scaled value is a linear layer whose matrix is its own (not tied to an embedding).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.ir.operators import RMS_NORM
from edgec.ir.quantized_form import parameter_of
from edgec.passes.contract import nodes_of
from edgec.passes.equalise.structure.residual_stream import linear_readers
from edgec.passes.equalise.structure.value_paths import value_paths
from edgec.passes.graph.weight_edits import edit, is_constant, is_tied

aten = torch.ops.aten


@dataclass(frozen=True)
class ScalePlace:
    """A value whose scale may move between the layer that makes it and the layers that read it.

    Attributes:
        maker: a norm, or a linear layer.
        rows: which of the maker's channels make the value.
        readers: linear layers that read the value.
        heads: (heads, width) where a maker's heads are repeated for several of the reader's; None elsewhere.
    """

    maker: Node
    rows: slice
    readers: tuple[Node, ...]
    heads: tuple[int, int] | None = None

    def per_channel(self, sizes: Tensor) -> Tensor:
        """Sizes of the reader's inputs [K] as sizes of the maker's channels [C]: means over repeated heads."""
        if self.heads is None:
            return sizes
        count, width = self.heads
        return sizes.view(count, -1, width).mean(1).flatten()

    def per_input(self, scale: Tensor) -> Tensor:
        """A scale of the maker's channels [C] for each of the reader's inputs [K]."""
        if self.heads is None:
            return scale
        count, width = self.heads
        repeats = int(self.readers[0].args[1].meta["val"].shape[1]) // (count * width)  # type: ignore[union-attr]
        return scale.view(count, 1, width).expand(count, repeats, width).flatten()

    def move(self, graph: GraphModule, scale: Tensor) -> None:
        """Divide what makes the value by a scale [C] and multiply the weights that read it."""

        def divided(values: Tensor) -> Tensor:
            result = values.clone()
            result[self.rows] /= scale.view(-1, *[1] * (values.dim() - 1))
            return result

        for place in (1, 2) if self.maker.target is aten.linear.default else (1,):
            if len(self.maker.args) > place and self.maker.args[place] is not None:
                edit(graph, self.maker, place, divided)
        for reader in self.readers:
            edit(graph, reader, 1, lambda weight: weight * self.per_input(scale))


def places(graph: GraphModule) -> list[ScalePlace]:
    """All places of a graph where a scale may move."""
    candidates = [*_norms(graph), *_products(graph), *_values(graph)]
    return [each for each in candidates if not any(is_tied(graph, reader, 1) for reader in each.readers)]


def _norms(graph: GraphModule) -> Iterator[ScalePlace]:
    for norm in nodes_of(graph, RMS_NORM):
        layers = linear_readers(norm) if is_constant(norm.args[1]) else None
        if layers:
            yield ScalePlace(norm, slice(None), tuple(layers))


def _products(graph: GraphModule) -> Iterator[ScalePlace]:
    for product in nodes_of(graph, aten.mul.Tensor):
        readers = linear_readers(product)
        maker = next((each for each in map(_maker, product.all_input_nodes) if each is not None), None)
        if readers and maker is not None:
            yield ScalePlace(*maker, tuple(readers))


def _maker(value: Node) -> tuple[Node, slice] | None:
    """The linear layer that makes a value, and which of its channels do; None where none does."""
    if len(value.users) != 1:
        return None
    if value.target is aten.linear.default and parameter_of(value.args[1]) is not None:
        return value, slice(None)
    part: Any = value.args if value.target is operator.getitem else (None, 0)
    chunk, index = part
    if chunk is None or chunk.target is not aten.chunk.default or chunk.args[2] != -1:
        return None
    layer, count = chunk.args[:2]
    if layer.target is not aten.linear.default or len(layer.users) != 1 or parameter_of(layer.args[1]) is None:
        return None
    width = int(layer.meta["val"].shape[-1]) // count
    return layer, slice(index * width, (index + 1) * width)


def _values(graph: GraphModule) -> Iterator[ScalePlace]:
    for path in value_paths(graph):
        yield ScalePlace(path.projection, path.rows, path.readers, (path.heads, path.width))
