"""Rotate hidden states and values so that no channel stands out; rounding then loses less.

    embedding(E) -> (+) -> norm(g) -> linear(W) ... linear(V) -> (+)         linear(Wv) -> attention -> linear(Wo)
    ==>
    embedding(E R) -> (+) -> norm(1) -> linear(W g R) ... linear(R'V) -> (+)   linear(D'Wv) -> attention -> linear(Wo D)

R spreads each hidden value over all, D each value of a head over its head (see ``orthogonal``); both are
folded into weights (QuaRot, Ashkboos et al. 2024, arXiv 2404.00456, without its rotations at run time; SpinQuant's R1
and R2, arXiv 2405.16406, not learned). Where embedding and lm_head are one tensor, it stays, and two linear layers
rotate the embedding's output and rotate back what the last norm reads.

Legality of R: the stream is written by linear layers and read by norms whose readers are linear layers (not Gemma's,
which adds norms); of D: values come from a linear layer, straight or sliced, and go to linear layers. What is not legal
is left as it is, and reported. Exact; rotated weights are float32, also those of a bfloat16 checkpoint.
Measured: logits of five tiny families move by at most 2e-5 of 6; what it does to rounding is in docs/quantisation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.errors import InputError
from edgec.ir.program import Effect, Interface, Program
from edgec.passes.equalise.structure.residual_stream import ResidualStream, residual_stream
from edgec.passes.equalise.structure.value_paths import ValuePath, value_paths
from edgec.passes.graph.weight_edits import edit, is_tied, parameter

aten = torch.ops.aten
ROTATED = "edgec_rotated"


@dataclass(frozen=True)
class Rotate:
    """Fold orthogonal matrices into weights; exact.

    Attributes:
        seed: of the matrices' random signs.
    """

    seed: int = 0
    name: str = "rotate"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """The residual stream or some attention values can be rotated."""
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
        """Rotate the graph unless that was done already."""
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
        """The graph records what was rotated."""
        assert program.graph.meta.get(ROTATED)


def orthogonal(size: int, seed: int = 0) -> Tensor:
    """An orthogonal matrix that spreads every value over all of them, float32 [size, size]; the same for the same seed.

    For a size 2^k * m with m odd: Sylvester's Hadamard matrix of 2^k, Kronecker the orthonormal cosine transform of m,
    with random signs. All entries of the former have one magnitude, so that an integer grid holds it up to one scale.
    """
    even = size & -size
    signs = torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(seed)) * 2 - 1
    mixed = torch.kron(_hadamard(even), _cosines(size // even))
    return (signs[:, None] * mixed).float()


def _hadamard(size: int) -> Tensor:
    """Sylvester's Hadamard matrix, orthonormal, float64; ``size`` is a power of two."""
    matrix, pair = torch.ones(1, 1, dtype=torch.float64), torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.kron(matrix, pair)
    return matrix / math.sqrt(size)


def _cosines(size: int) -> Tensor:
    """The orthonormal discrete cosine transform (DCT-II), float64."""
    place = torch.arange(size, dtype=torch.float64)
    waves = torch.cos(math.pi / size * (place[None] + 0.5) * place[:, None]) * math.sqrt(2 / size)
    waves[0] /= math.sqrt(2)
    return waves


def _rotate_stream(graph: GraphModule, stream: ResidualStream, rotation: Tensor) -> None:
    for writer in stream.writers:
        edit(graph, writer, 1, lambda weight: rotation.T @ weight)
        if len(writer.args) > 2 and writer.args[2] is not None:
            edit(graph, writer, 2, lambda bias: bias @ rotation)
    for norm, layers in stream.readers.items():
        if any(is_tied(graph, layer, 1) for layer in layers):
            _insert(graph, norm, 0, rotation, f"{ROTATED}_back")
        else:
            _fold_norm(graph, norm, layers)
            for layer in layers:
                edit(graph, layer, 1, lambda weight: weight @ rotation)
    for source in stream.sources:
        if is_tied(graph, source, 0):
            _rotate_after(graph, source, rotation)
        else:
            edit(graph, source, 0, lambda table: table @ rotation)


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
    """Insert a linear layer in front of an operator's argument."""
    source = node.args[place]
    assert isinstance(source, Node)
    with graph.graph.inserting_before(node):
        layer = _linear(graph, source, weight, name)
    node.update_arg(place, layer)


def _rotate_after(graph: GraphModule, source: Node, rotation: Tensor) -> None:
    with graph.graph.inserting_after(source):
        layer = _linear(graph, source, rotation.T, f"{ROTATED}_{source.name}")
    source.replace_all_uses_with(layer, delete_user_cb=lambda user: user is not layer)


def _linear(graph: GraphModule, source: Node, weight: Tensor, name: str) -> Node:
    matrix = parameter(graph, name, weight.contiguous(), like=source)
    with graph.graph.inserting_after(matrix):
        layer = graph.graph.call_function(aten.linear.default, (source, matrix))
    layer.meta["val"] = source.meta["val"]
    return layer


def _rotate_values(graph: GraphModule, path: ValuePath, rotation: Tensor) -> None:
    """Rotate each head's values, and rotate back in the layers that read attention's result."""

    def rotated(weight: Tensor) -> Tensor:
        part = weight[path.rows]
        result = weight.clone()
        heads = torch.einsum("de,hd...->he...", rotation, part.view(-1, path.width, *part.shape[1:]))
        result[path.rows] = heads.reshape(part.shape)
        return result

    edit(graph, path.projection, 1, rotated)
    if len(path.projection.args) > 2 and path.projection.args[2] is not None:
        edit(graph, path.projection, 2, rotated)
    for reader in path.readers:
        edit(graph, reader, 1, lambda weight: (weight.view(len(weight), -1, path.width) @ rotation).view(weight.shape))
