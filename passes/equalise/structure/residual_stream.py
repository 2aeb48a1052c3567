"""Find a decoder's residual stream, which embeddings begin, layers add to and norms read.

    embedding -> (+) -> (+) -> ... -> (+) -> norm -> lm_head
                  ^ |
             linear norm -> linear, linear ...

An orthogonal matrix on the whole stream changes nothing if what writes undoes it and what reads applies it, which holds
for linear layers, and for norms because they see lengths only, once their weights have moved into the layers after
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from edgec.ir.operators import RMS_NORM
from edgec.ir.quantized_form import parameter_of
from edgec.passes.contract import nodes_of
from edgec.passes.graph.weight_edits import is_constant

aten = torch.ops.aten
_CHOOSES_ROWS = frozenset({aten.index_select.default, aten.slice.Tensor, aten.to.dtype, aten.clone.default})
_SUMS = frozenset({aten.add.Tensor})
_SCALES = frozenset({aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor})


@dataclass
class ResidualStream:
    """The residual stream of a graph.

    Attributes:
        sources: the embeddings that begin it.
        writers: linear layers whose output is added to it.
        readers: norms, each with the linear layers that read it.
        problem: why no orthogonal matrix can pass; empty where one can.
    """

    sources: list[Node] = field(default_factory=list)
    writers: list[Node] = field(default_factory=list)
    readers: dict[Node, list[Node]] = field(default_factory=dict)
    problem: str = ""

    @property
    def width(self) -> int:
        """Values per token."""
        return int(self.sources[0].meta["val"].shape[-1])


def residual_stream(graph: GraphModule) -> ResidualStream:
    """Follow the stream from the embeddings down, to the first node that an orthogonal matrix cannot pass."""
    stream, inside = ResidualStream(), set[Node]()
    for node in nodes_of(graph, aten.embedding.default):
        if parameter_of(node.args[0]) is not None:
            stream.sources.append(node)
            inside.add(node)
    if not stream.sources:
        stream.problem = "there is no embedding"
    for node in graph.graph.nodes:
        if not stream.problem and inside.intersection(node.all_input_nodes):
            _follow(node, inside, stream)
    if not stream.problem and not stream.readers:
        stream.problem = "no norm reads the embedding"
    return stream


def _follow(node: Node, inside: set[Node], stream: ResidualStream) -> None:
    """Add a node that reads the stream, or note why it cannot belong."""
    if node.target is RMS_NORM and node.args[0] in inside:
        _read(node, stream)
    elif node.target in _SUMS and not node.kwargs:
        inside.add(node)
        for other in (source for source in node.all_input_nodes if source not in inside):
            _write(other, stream)
    elif _passes(node, inside):
        inside.add(node)
    elif node.target is not aten.sym_size.int:
        stream.problem = f"{node.target} reads the hidden state ({node.name})"


def _passes(node: Node, inside: set[Node]) -> bool:
    """Whether a node chooses tokens, or scales the stream by a number."""
    if node.target in _SCALES:
        return all(source in inside or _is_number(source) for source in node.all_input_nodes)
    return node.target in _CHOOSES_ROWS and _keeps_values(node)


def _read(norm: Node, stream: ResidualStream) -> None:
    if norm.args[1] is not None and not is_constant(norm.args[1]):
        stream.problem = f"the weight of a norm is computed ({norm.name})"
    layers = linear_readers(norm)
    if layers is None:
        stream.problem = f"something other than linear layers reads a norm of the hidden state ({norm.name})"
    stream.readers[norm] = layers or []


def linear_readers(node: Node) -> list[Node] | None:
    """The linear layers that read a value, perhaps a selection of its rows; None where anything else does."""
    layers: list[Node] = []
    for user in node.users:
        if user.target is aten.linear.default and user.args[0] is node and parameter_of(user.args[1]) is not None:
            layers.append(user)
        elif user.target in _CHOOSES_ROWS and _keeps_values(user):
            further = linear_readers(user)
            if further is None:
                return None
            layers += further
        elif user.target is not aten.sym_size.int:
            return None
    return layers


def _write(node: Node, stream: ResidualStream) -> None:
    if node.target is not aten.linear.default or parameter_of(node.args[1]) is None or len(node.users) != 1:
        stream.problem = f"{node.target} adds to the hidden state, not a linear layer ({node.name})"
    else:
        stream.writers.append(node)


def _keeps_values(node: Node) -> bool:
    """Whether a node leaves the values within a row as they are."""
    if node.target is aten.slice.Tensor or node.target is aten.index_select.default:
        dim: Any = node.args[1]
        return bool(dim in (0, 1))
    return node.target is aten.clone.default or node.args[1] == torch.float32


def _is_number(node: Node) -> bool:
    value = node.meta.get("val")
    return is_constant(node) and isinstance(value, torch.Tensor) and value.numel() == 1
