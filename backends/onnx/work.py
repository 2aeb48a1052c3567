"""The amount of work of each operator in an ONNX model of fixed shapes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

_PRODUCTS = ("Conv", "MatMul", "Gemm")
_RECURRENT = ("LSTM", "GRU", "RNN")


@dataclass
class OnnxWork:
    """Operators by ONNX's names.

    Attributes:
        counts: how many there are.
        operations: multiply-accumulates of matrix products, and elements that other operators write.
    """

    counts: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)


def work_of(model: ir.Model) -> OnnxWork:
    """The work of one call of a model."""
    work = OnnxWork()
    for node in model.graph:
        work.counts[node.op_type] += 1
        work.operations[node.op_type] += _operations(node)
    return work


def _operations(node: ir.Node) -> int:
    if node.op_type in _RECURRENT:
        return _steps(node) * sum(map(_elements, node.inputs[1:3]))
    if node.op_type == "ConvTranspose":
        # Each value of the input goes into every weight of its channel.
        return _elements(node.inputs[0]) * (_elements(node.inputs[1]) // _sizes(node.inputs[1])[0])
    written = _elements(node.outputs[0])
    if node.op_type not in _PRODUCTS:
        return written
    weight = node.inputs[1]
    columns = _elements(weight) // max(1, _sizes(weight)[0 if node.op_type == "Conv" else -1])
    # A stack of matrices: one of them is multiplied per element.
    stacked = math.prod(_sizes(weight)[:-2]) if node.op_type == "MatMul" else 1
    return written * (columns // max(1, stacked))


def _steps(node: ir.Node) -> int:
    """Steps times rows of a recurrent layer; its two matrices have the weights of both directions."""
    return math.prod(_sizes(node.inputs[0])[:2])


def _elements(value: ir.Value | None) -> int:
    return math.prod(_sizes(value))


def _sizes(value: ir.Value | None) -> list[int]:
    shape = value.shape if value is not None else None
    return [size if isinstance(size, int) else 1 for size in shape or ()] or [1]
