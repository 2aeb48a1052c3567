"""Integers of a quantised graph as the floats that they stand for; their grids are kept separately.

    conv2d(x, dequantize_affine(w, s))          ==>          conv2d(x, W)          and          W -> (bits, s)

ONNX Runtime's quantiser takes a float model and lays its own grid over the weights; given ours, it finds the same
integers again. Legality: one scale for each output channel, which is what Hexagon's convolutions read. Exact.
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
    """Integers of ``bits`` bits times ``scale`` [N], along the first dimension."""

    bits: int
    scale: Tensor


@dataclass(frozen=True)
class FloatWeights:
    """Replaces quantised weights with the floats that they stand for; exact."""

    name: str = "float_weights"
    effect: Effect = Effect.EXACT

    def requires(self, program: Program) -> None:
        """Require one scale for each output channel.

        Raises:
            InputError: E591.
        """
        for node in nodes_of(program.graph, DEQUANTIZE):
            integers, scale, _ = quantized_parts(node)
            if attribute(program.graph, str(scale.target)).numel() != integers.meta["val"].shape[0]:
                raise InputError(
                    what="Hexagon's convolutions read one scale for each output channel",
                    where=str(integers.target),
                    why="this recipe has a scale for each group of a row",
                    fix="set group_size = 0, or use --recipe int4-channel",
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
        by_name[f"{integers.target}{_FLOAT}"] = IntegerGrid(bits, held.reshape(-1))
    return by_name
