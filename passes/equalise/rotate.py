"""Rotate hidden states and values so that no channel stands out; what is rounded then loses less.

    embedding(E) -> (+) -> norm(g) -> linear(W) ... linear(V) -> (+)         linear(Wv) -> attention -> linear(Wo)
    ==>
    embedding(E R) -> (+) -> norm(1) -> linear(W g R) ... linear(R'V) -> (+)   linear(D'Wv) -> attention -> linear(Wo D)

R spreads each hidden value over all, D each value of a head over its head (``orthogonal.py``: Hadamard's matrix); both
are folded into weights (QuaRot, Ashkboos et al. 2024, arXiv 2404.00456, without its rotations at run time; SpinQuant's
R1 and R2, arXiv 2405.16406, not learned). Where embedding and lm_head are one tensor, it stays, and two
linear layers turn the embedding's output and turn back what the last norm reads.

Legality of R: the stream is written by linear layers and read by norms whose readers are linear layers (not Gemma's,
which adds norms); of D: values come from a linear layer, straight or sliced, and go to linear layers. What is not legal
is left and reported. Exact; rotated weights are float32, also those of a bfloat16 checkpoint.
Measured: logits of five tiny families move by at most 2e-5 of 6; what it does to rounding is in docs/quantisation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.equalise.structure.orthogonal import orthogonal
from edgec.passes.equalise.structure.residual_stream import ResidualStream, residual_stream
from edgec.passes.equalise.structure.value_paths import ValuePath, value_paths
from edgec.passes.graph.weight_edits import edit, is_tied, parameter

aten = torch.ops.aten
ROTATED = "edgec_rotated"


@dataclass(frozen=True)
class Rotate:
    """Orthogonal matrices folded into weights; exact.

    Attributes:
        seed: of the signs.
    """

    seed: int = 0
    name: str = "rotate"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Norms are fused, and something can be rotated."""
        stream = residual_stream(program.graph)
        if stream.problem and not value_paths(program.graph):
            raise InputError(
                what="nothing in this model can be rotated",
                where=self.name,
                why=stream.problem,
                fix="leave rotate out of the recipe's prepare",
                code="E522",
            )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Rotate once; a graph that is rotated stays as it is."""
        if graph.meta.get(ROTATED):
            return program.interface
        stream, paths = residual_stream(graph), value_paths(graph)
        for path in paths:
            _rotate_values(graph, path, orthogonal(path.width, self.seed))
        if not stream.problem:
            _rotate_stream(graph, stream, orthogonal(stream.width, self.seed))
        graph.meta[ROTATED] = f"{len(paths)} layers' values" + ("" if stream.problem else ", hidden state")
        return program.interface

    def ensures(self, program: Program) -> None:
        """It is recorded what was rotated."""
        assert program.graph.meta.get(ROTATED)


def _rotate_stream(graph: GraphModule, stream: ResidualStream, turn: Tensor) -> None:
    for writer in stream.writers:
        _turn_output(graph, writer, turn)
    for norm, layers in stream.readers.items():
        if any(is_tied(graph, layer, 1) for layer in layers):
            _insert(graph, norm, 0, turn, f"{ROTATED}_back")
        else:
            _fold_norm(graph, norm, layers)
            for layer in layers:
                edit(graph, layer, 1, lambda weight: weight @ turn)
    for source in stream.sources:
        if is_tied(graph, source, 0):
            _turn_after(graph, source, turn)
        else:
            edit(graph, source, 0, lambda table: table @ turn)


def _turn_output(graph: GraphModule, layer: Node, turn: Tensor) -> None:
    edit(graph, layer, 1, lambda weight: turn.T @ weight)
    if len(layer.args) > 2 and layer.args[2] is not None:
        edit(graph, layer, 2, lambda bias: bias @ turn)


def _fold_norm(graph: GraphModule, norm: Node, layers: list[Node]) -> None:
    """Move a norm's weight into the layers that read it."""
    if norm.args[1] is None:
        return
    held: list[Tensor] = []

    def ones(weight: Tensor) -> Tensor:
        held.append(weight)
        return torch.ones_like(weight)

    edit(graph, norm, 1, ones)
    for layer in layers:
        edit(graph, layer, 1, lambda weight: weight * held[0])


def _insert(graph: GraphModule, node: Node, place: int, weight: Tensor, name: str) -> None:
    """A linear layer in front of an operator's argument."""
    source = node.args[place]
    assert isinstance(source, Node)
    with graph.graph.inserting_before(node):
        layer = _linear(graph, source, weight, name)
    node.update_arg(place, layer)


def _turn_after(graph: GraphModule, source: Node, turn: Tensor) -> None:
    with graph.graph.inserting_after(source):
        layer = _linear(graph, source, turn.T, f"{ROTATED}_{source.name}")
    source.replace_all_uses_with(layer, delete_user_cb=lambda user: user is not layer)


def _linear(graph: GraphModule, source: Node, weight: Tensor, name: str) -> Node:
    matrix = parameter(graph, name, weight.contiguous(), like=source)
    with graph.graph.inserting_after(matrix):
        layer = graph.graph.call_function(aten.linear.default, (source, matrix))
    layer.meta["val"] = source.meta["val"]
    return layer


def _rotate_values(graph: GraphModule, path: ValuePath, turn: Tensor) -> None:
    """Rotate each head's values, and back in the layers that read attention's result."""

    def heads(weight: Tensor) -> Tensor:
        part = weight[path.rows]
        result = weight.clone()
        turned = torch.einsum("de,hd...->he...", turn, part.view(-1, path.width, *part.shape[1:]))
        result[path.rows] = turned.reshape(part.shape)
        return result

    edit(graph, path.projection, 1, heads)
    if len(path.projection.args) > 2 and path.projection.args[2] is not None:
        edit(graph, path.projection, 2, heads)
    for reader in path.readers:
        edit(graph, reader, 1, lambda weight: (weight.view(len(weight), -1, path.width) @ turn).view(weight.shape))
