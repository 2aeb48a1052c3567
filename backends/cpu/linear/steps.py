"""A cluster of nodes as the steps that edgec's backend runs (engine/kernels/region/region.h).

    norm -> quantize -> linear gate, up -> silu(gate) * up -> quantize -> linear down -> + residual
        ==>
    norm v1 v0 | group v1: gate, up -> gate silu | group v2: down -> add v0

Matrices that read the same value are one group, which quantises it once, or reads it in float. Legality: every linear
layer reads such a value and a matrix as weights.py says; the rest is arithmetic on values [1, S, width], each token by
itself.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.cpu.linear.weights import (
    INT8,
    LINEAR,
    StoredMatrix,
    input_of,
    quantised_source,
    stored_matrix,
)
from edgec.ir.attributes import attribute
from edgec.ir.operators import RMS_NORM
from edgec.ir.quantized_form import CHOOSE, DEQUANTIZE, QUANTIZE

aten = torch.ops.aten
QUANTISING = frozenset({CHOOSE, QUANTIZE, DEQUANTIZE})
FUNCTIONS: dict[Any, str] = {
    aten.silu.default: "silu",
    aten.sigmoid.default: "sigmoid",
    aten.tanh.default: "tanh",
    aten.relu.default: "relu",
    aten.gelu.default: "gelu",
}
ARITHMETIC: dict[Any, str] = {aten.add.Tensor: "add", aten.sub.Tensor: "sub", aten.mul.Tensor: "mul"}


@dataclass(frozen=True)
class MatrixProduct:
    """A matrix, the name of its bias if it has one, and the node that it computes."""

    matrix: StoredMatrix
    bias: str | None
    out: Node


@dataclass(frozen=True)
class MatrixGroup:
    """Matrices that read the same value.

    Attributes:
        x: the value, before it was quantised if it is.
        products: the matrices, and what they compute.
        add: a value to add to the only product.
        gate: a function: the product of the first through it, with the second, is all that is kept.
        inputs: how the matrices read x: ``int8``, quantised per token, or ``float32``.
    """

    x: Node
    products: tuple[MatrixProduct, ...]
    add: Node | None = None
    gate: str | None = None
    inputs: str = INT8


@dataclass(frozen=True)
class NormStep:
    """An RMS norm; ``weight`` names its weight [width]."""

    out: Node
    x: Node
    eps: float
    weight: str | None


@dataclass(frozen=True)
class BinaryStep:
    """Arithmetic on two values."""

    kind: str
    out: Node
    x: tuple[Node, Node]


@dataclass(frozen=True)
class ConstantStep:
    """Arithmetic on a value and a constant: float32 [width] or [1]."""

    kind: str
    out: Node
    x: Node
    values: Tensor


@dataclass(frozen=True)
class FunctionStep:
    """A function of each number."""

    kind: str
    out: Node
    x: Node


Step = MatrixGroup | NormStep | BinaryStep | ConstantStep | FunctionStep


class NotExecutable(Exception):
    """The backend has no step for a node; the message says which."""


def steps_of(graph: GraphModule, cluster: Sequence[Node]) -> tuple[Step, ...]:
    """The steps of a cluster, in order.

    Raises:
        NotExecutable: a node is not one that the backend computes.
    """
    single = [step for node in cluster for step in _step(graph, node)]
    return _grouped(_with_residuals(_with_gates(single)))


def executable(graph: GraphModule, node: Node) -> bool:
    """Whether the backend computes this node."""
    if node.target in QUANTISING or node.target is operator.getitem:
        return _quantises_tokens(node)
    try:
        return bool(_step(graph, node))
    except NotExecutable:
        return False


def _quantises_tokens(node: Node) -> bool:
    """Whether a node is part of the chain that quantises the input of linear layers."""
    if node.target is DEQUANTIZE:
        return quantised_source(node) is not None
    source: Any = node.args[0]
    chain = node.target in QUANTISING or (node.target is operator.getitem and source.target is CHOOSE)
    return chain and bool(node.users) and all(map(_quantises_tokens, node.users))


def _step(graph: GraphModule, node: Node) -> list[Step]:
    """The step of one node; none for a node of the chain that quantises tokens."""
    if node.target in QUANTISING or node.target is operator.getitem:
        return []
    if node.target is LINEAR:
        return [_linear(graph, node)]
    if not _is_value(node):
        raise NotExecutable(node.name)
    if node.target is RMS_NORM:
        return [_norm(node)]
    if node.target in FUNCTIONS and _is_value(node.args[0]):
        tanh = node.kwargs.get("approximate", "none") == "tanh"
        return [FunctionStep(FUNCTIONS[node.target] + "_tanh" * tanh, node, node.args[0])]  # type: ignore[arg-type]
    if node.target in ARITHMETIC and node.kwargs.get("alpha", 1) == 1:
        return [_arithmetic(graph, node)]
    raise NotExecutable(node.name)


def _linear(graph: GraphModule, node: Node) -> Step:
    read, matrix = input_of(node.args[0]), stored_matrix(graph, node.args[1])
    bias = node.args[2] if len(node.args) > 2 else None
    plain = bias is None or (isinstance(bias, Node) and bias.op == "get_attr")
    if read is None or matrix is None or not plain or not _is_value(read[0]):
        raise NotExecutable(node.name)
    product = MatrixProduct(matrix, None if bias is None else str(bias.target), node)  # type: ignore[union-attr]
    return MatrixGroup(read[0], (product,), inputs=read[1])


def _norm(node: Node) -> Step:
    x, weight, eps = node.args
    if not _is_value(x) or not (weight is None or (isinstance(weight, Node) and weight.op == "get_attr")):
        raise NotExecutable(node.name)
    name = None if weight is None else str(weight.target)
    return NormStep(node, x, float(eps), name)  # type: ignore[arg-type]


def _arithmetic(graph: GraphModule, node: Node) -> Step:
    kind, (a, b) = ARITHMETIC[node.target], node.args[:2]
    if _is_value(a) and _is_value(b) and _shape(a) == _shape(b):
        return BinaryStep(kind, node, (a, b))  # type: ignore[arg-type]
    for x, other in ((a, b), (b, a)):
        values = _constant_values(graph, other)
        if values is None or kind == "sub" or not _is_value(x) or _shape(x) != _shape(node):
            continue
        if str(values.numel()) in ("1", _shape(x)[-1]):
            return ConstantStep(kind, node, x, values)  # type: ignore[arg-type]
    raise NotExecutable(node.name)


def _constant_values(graph: GraphModule, value: Any) -> Tensor | None:
    """A constant operand as float32 [N], N numbers along the width or 1; None for anything else."""
    if isinstance(value, int | float):
        return torch.tensor([float(value)])
    if not isinstance(value, Node) or value.op != "get_attr":
        return None
    tensor: Tensor = attribute(graph, str(value.target))
    along = tensor.dim() == 0 or tensor.numel() == tensor.shape[-1]
    return tensor.detach().float().reshape(-1) if along and tensor.is_floating_point() else None


def _is_value(node: Any) -> bool:
    """Whether a node is float32 [1, S, width], and computed from inputs."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, Tensor) or value.dtype != torch.float32 or value.dim() != 3 or node.op == "get_attr":
        return False
    return isinstance(value.shape[2], int) and value.shape[0] == 1


def _shape(node: Any) -> tuple[str, ...]:
    return tuple(str(size) for size in node.meta["val"].shape)


def _with_gates(steps: list[Step]) -> list[Step]:
    """Join two matrices, the function of one's result, and the product of both."""
    by_out = {step.out: step for step in steps if not isinstance(step, MatrixGroup)}
    linears = {step.products[0].out: step for step in steps if isinstance(step, MatrixGroup)}
    joined: dict[Node, MatrixGroup] = {}
    gone: set[Node] = set()
    for step in steps:
        if isinstance(step, BinaryStep) and step.kind == "mul":
            for opened, other in (step.x, step.x[::-1]):
                function = by_out.get(opened)
                if not isinstance(function, FunctionStep) or {opened, other, function.x} & gone:
                    continue
                gate, up = linears.get(function.x), linears.get(other)
                alone = all(len(n.users) == 1 for n in (opened, other, function.x))
                if gate and up and alone and (gate.x, gate.inputs) == (up.x, up.inputs):
                    products = tuple(MatrixProduct(p.matrix, p.bias, step.out) for p in (*gate.products, *up.products))
                    joined[step.out] = replace(gate, products=products, gate=function.kind)
                    gone |= {opened, other, function.x}
                    break
    return [joined.get(out, step) for step in steps for out in [_out(step)] if out not in gone]


def _with_residuals(steps: list[Step]) -> list[Step]:
    """Add a value to a matrix's result where nothing else reads the result and the value is there before."""
    position = {_out(step): index for index, step in enumerate(steps)}
    linears = {_out(s): s for s in steps if isinstance(s, MatrixGroup) and s.gate is None}
    joined: dict[Node, MatrixGroup] = {}
    gone: set[Node] = set()
    for step in steps:
        if isinstance(step, BinaryStep) and step.kind == "add":
            for result, other in (step.x, step.x[::-1]):
                group = linears.get(result)
                ready = other is not result and position.get(other, -1) < position[step.out]
                if group and ready and len(result.users) == 1:
                    joined[step.out] = replace(group, products=(replace(group.products[0], out=step.out),), add=other)
                    gone.add(result)
                    break
    return [joined.get(out, step) for step in steps for out in [_out(step)] if out not in gone]


def _grouped(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Put plain matrices that read the same value alike into one group, where the first of them stood."""
    grouped: list[Step] = []
    place: dict[tuple[Node, str], int] = {}
    for step in steps:
        plain = isinstance(step, MatrixGroup) and step.add is None and step.gate is None
        if isinstance(step, MatrixGroup) and plain and (step.x, step.inputs) in place:
            first = grouped[place[step.x, step.inputs]]
            assert isinstance(first, MatrixGroup)
            grouped[place[step.x, step.inputs]] = replace(first, products=(*first.products, *step.products))
            continue
        if isinstance(step, MatrixGroup) and plain:
            place[step.x, step.inputs] = len(grouped)
        grouped.append(step)
    return tuple(grouped)


def _out(step: Step) -> Node:
    return step.products[0].out if isinstance(step, MatrixGroup) else step.out
