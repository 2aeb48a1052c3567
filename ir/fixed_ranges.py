"""Activations in 8 bits with a range that is fixed at export.

    x -> quantize_per_tensor(scale, zero point) -> int8 -> dequantize_per_tensor(scale, zero point)

It is the form of torchao's and ExecuTorch's static quantisation (PT2E), which XNNPACK reads; scale and zero point are
numbers of the call, so that nothing is stored beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers torch.ops.quantized_decomposed)
from torch.fx import Graph, Node

QUANTIZE_FIXED = torch.ops.quantized_decomposed.quantize_per_tensor.default
DEQUANTIZE_FIXED = torch.ops.quantized_decomposed.dequantize_per_tensor.default
_LOW, _HIGH = -128, 127
# XNNPACK refuses scales that are not normal numbers.
_LEAST_SCALE = 1e-30


@dataclass(frozen=True)
class FixedRange:
    """A value v is the integer round(v / scale) + zero_point, from -128 to 127."""

    scale: float
    zero_point: int

    @classmethod
    def of(cls, low: float, high: float) -> FixedRange:
        """The range from ``low`` to ``high``, widened to hold 0, which is one of its values."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = max((high - low) / (_HIGH - _LOW), _LEAST_SCALE)
        return cls(scale, max(_LOW, min(_HIGH, _LOW - round(low / scale))))


def quantized(graph: Graph, node: Node, held: FixedRange) -> Node:
    """The integers of a value, at the current insertion point."""
    return graph.call_function(QUANTIZE_FIXED, (node, held.scale, held.zero_point, _LOW, _HIGH, torch.int8))


def read_by(graph: Graph, integers: Node, value: Node, held: FixedRange, readers: Iterable[Node]) -> None:
    """Let readers of a value read its integers instead; each has a node of its own, as XNNPACK's partitioner needs."""
    for reader in readers:
        with graph.inserting_before(reader):
            back = graph.call_function(
                DEQUANTIZE_FIXED, (integers, held.scale, held.zero_point, _LOW, _HIGH, torch.int8)
            )
        back.meta = {name: each for name, each in value.meta.items() if name == "val"}
        reader.replace_input_with(value, back)
