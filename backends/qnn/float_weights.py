"""Integers of a quantised graph as the floats that they stand for; their grids are kept separately.

    conv2d(x, dequantize_affine(w, s))          ==>          conv2d(x, W)          and          W -> (bits, s)

ONNX Runtime's quantiser takes a float model and lays its own grid over the weights; given ours, it finds the same
integers again. Legality: one scale for each output channel, or for each block of a row of a convolution's 4-bit
weights (``block_scales.py``), which is what Hexagon reads. Exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from edgec.backends.onnx.onnx_form import quantized_parts
from edgec.errors import InputError
from edgec.ir.attributes import attribute, read_shared
from edgec.ir.program import Effect, Interface, Program
from edgec.ir.quantized_form import DEQUANTIZE
from edgec.passes.contract import nodes_of

_FLOAT = "_float"


@dataclass(frozen=True)
class IntegerGrid:
    """Integers of ``bits`` bits times ``scale`` [N, blocks]: for each output channel, for each block of its row."""

    bits: int
    scale: Tensor

    @property
    def blocks(self) -> int:
        """Scales in a row."""
        return int(self.scale.shape[1])


@dataclass(frozen=True)
class FloatWeights:
    """Replaces quantised weights with the floats that they stand for; exact."""

    name: str = "float_weights"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Require one scale for each output channel, or 4-bit weights of a convolution.

        Raises:
            InputError: E591.
        """
        for node in nodes_of(program.graph, DEQUANTIZE):
            integers, scale, bits = quantized_parts(node)
            shape = integers.meta["val"].shape
            grouped = attribute(program.graph, str(scale.target)).numel() != shape[0]
            if grouped and (bits != 4 or len(shape) != 4):
                raise InputError(
                    what="Hexagon reads a scale for each group of a row in 4-bit convolutions only",
                    where=str(integers.target),
                    why=f"this recipe asks for {bits}-bit groups in a layer of {len(shape)} dimensions",
                    fix="set group_size = 0 for it by a rule, or use --recipe int4-channel",
                    code="E591",
                )

    def apply(self, graph: GraphModule, program: Program) -> Interface:
        """Replace every dequantised weight with its value."""
        for node in nodes_of(graph, DEQUANTIZE):
            integers, _, _ = quantized_parts(node)
            with graph.graph.inserting_before(node):
                held = read_shared(graph, f"{integers.target}{_FLOAT}", partial(_value, graph, node))
            held.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(held)
        return program.interface

    def ensures(self, program: Program) -> None:
        """No weight is dequantised any more."""
        assert not nodes_of(program.graph, DEQUANTIZE)


def _value(graph: GraphModule, node: Node) -> Tensor:
    arguments: Any = torch.fx.map_arg(node.args, lambda source: attribute(graph, str(source.target)))
    with torch.no_grad():
        value: Tensor = DEQUANTIZE(*arguments, **node.kwargs)
    return value.detach()


def grids(program: Program) -> Mapping[str, IntegerGrid]:
    """The grid of each weight of a quantised program, by the name that ``FloatWeights`` gives it."""
    by_name = {}
    for node in nodes_of(program.graph, DEQUANTIZE):
        integers, scale, bits = quantized_parts(node)
        held = attribute(program.graph, str(scale.target)).detach().float()
        by_name[f"{integers.target}{_FLOAT}"] = IntegerGrid(bits, held.reshape(len(held), -1))
    return by_name
